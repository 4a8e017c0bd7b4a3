"use strict";
// Elements that came from a common statement of the text light up together: those under the pointer or the focus, else those that were chosen.
(() => {
  const linked = [...document.querySelectorAll("[data-of]")];
  const places = new Map();
  const idsOf = (element) => element.dataset.of.split(" ");
  for (const element of linked) {
    element.tabIndex = 0;
    for (const id of idsOf(element)) {
      if (!places.has(id)) places.set(id, []);
      places.get(id).push(element);
    }
  }
  const alike = (element) => new Set(idsOf(element).flatMap((id) => places.get(id)));
  let lit = new Set(), chosen = null;
  const light = (element) => {
    const next = element ? alike(element) : new Set();
    for (const one of lit) if (!next.has(one)) one.classList.remove("lit");
    for (const one of next) one.classList.add("lit");
    lit = next;
  };
  const reveal = (element) => {
    for (const pane of document.querySelectorAll(".pane pre")) {
      if (pane.contains(element)) continue;
      const first = [...alike(element)].find((one) => pane.contains(one));
      if (first) pane.scrollTop += first.getBoundingClientRect().top - pane.getBoundingClientRect().top - 24;
    }
  };
  const choose = (element) => {
    if (chosen) chosen.classList.remove("pinned");
    chosen = element === chosen ? null : element;
    if (chosen) {
      chosen.classList.add("pinned");
      reveal(chosen);
    }
    light(chosen || element);
  };
  const at = (event) => (event.target.closest ? event.target.closest("[data-of]") : null);
  document.addEventListener("mouseover", (event) => light(at(event) || chosen));
  document.addEventListener("focusin", (event) => light(at(event) || chosen));
  document.addEventListener("click", (event) => at(event) && choose(at(event)));
  document.addEventListener("keydown", (event) => {
    const element = at(event);
    if (event.key === "Escape" && chosen) choose(chosen);
    if ((event.key === "Enter" || event.key === " ") && element === document.activeElement && element) {
      event.preventDefault();
      choose(element);
    }
  });
})();
