#include "lang/check/attributes.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>

#include "lang/by_name.h"
#include "lang/former.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/pack.h"

namespace tilec::lang::checking {
namespace {

constexpr std::string_view attributes[] = {
    "name", "ties", "plan", "recompute", "save", "pid", "allow", "formerly", "deprecated", "also", "layout", "ask",
    "before", "after"};
constexpr std::string_view idle[] = {"plan", "pid"};   // accepted on statements with whatever they say, and without
                                                       // effect

void attribute_names(Diagnostics& diagnostics, const std::vector<Attribute>& words) {
  for (const Attribute& word : words) {
    if (std::find(std::begin(attributes), std::end(attributes), word.name.text) != std::end(attributes)) continue;
    auto entry = diagnostics.report(word.name.span, messages::unknown_attribute, word.name.spelled());
    if (const auto near = nearest(word.name.text, {std::begin(attributes), std::end(attributes)}))
      entry.hint(fmt::format("did you mean `{}`?", *near));
  }
}

bool is_idle(const Attribute& word) {
  return std::find(std::begin(idle), std::end(idle), word.name.text) != std::end(idle);
}

// Of the known ones, or of those in `only`.
void no_effect(Diagnostics& diagnostics, const std::vector<Attribute>& words, std::string_view where,
    const std::vector<std::string_view>& only = {std::begin(attributes), std::end(attributes)}) {
  for (const Attribute& word : words)
    if (!is_idle(word) && std::find(only.begin(), only.end(), word.name.text) != only.end())
      diagnostics.report(word.name.span, messages::attribute_idle, word.name.text, where);
}

bool are_codes(const std::vector<Value>& values) {
  const auto is_code = [](const Value& value) {
    const auto* word = std::get_if<std::shared_ptr<const Word>>(&value.value);
    const std::string code = word && !(*word)->parentheses ? (*word)->name.text : "";
    return code.size() == 5 && code[0] == 'W' &&
        std::all_of(code.begin() + 1, code.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return !values.empty() && std::all_of(values.begin(), values.end(), is_code);
}

// `ties` and `name` take one word, `save` and `recompute` nothing; each stands once.
void attribute_values(Diagnostics& diagnostics, const std::vector<Attribute>& words) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string& name = word->name.text;
    if (is_idle(*word) || std::find(std::begin(attributes), std::end(attributes), name) == std::end(attributes))
      continue;
    const auto before =
        std::find_if(words.begin(), word, [&](const Attribute& other) { return other.name.text == name; });
    if (before != word)
      diagnostics.report(word->name.span, messages::attribute_values, name, "is given twice")
          .label(before->name.span, "and here");
    if (name == "allow" && !are_codes(word->values))
      diagnostics.report(word->name.span, messages::attribute_values, name, "takes codes of warnings")
          .hint("write `[[allow(W0210)]]`");
    const bool one_word = word->values.size() == 1 && !std::holds_alternative<Number>(word->values[0].value);
    if (name == "name" && !one_word)
      diagnostics.report(word->name.span, messages::attribute_idle, name, "without one word")
          .hint("write `[[name(total)]]`");
    if (name == "ties" && !one_word)
      diagnostics.report(word->name.span, messages::attribute_values, name, "takes one of split, first and all")
          .hint("write `[[ties(first)]]`");
    if ((name == "save" || name == "recompute") && !word->values.empty())
      diagnostics.report(word->name.span, messages::attribute_values, name, "takes nothing in parentheses");
  }
}

// Of a function, which is compiled as they say.
void plan_lines(Diagnostics& diagnostics, const std::vector<Attribute>& words) {
  const Attribute* before = nullptr;
  for (const Attribute& word : words) {
    if (word.name.text != "plan") continue;
    const bool lines = !word.values.empty() &&
        std::all_of(word.values.begin(), word.values.end(),
            [](const Value& value) { return std::holds_alternative<std::string>(value.value); });
    if (before != nullptr)
      diagnostics.report(word.name.span, messages::attribute_values, "plan", "is given twice")
          .label(before->name.span, "and here");
    else if (!lines)
      diagnostics.report(word.name.span, messages::attribute_values, "plan", "takes lines of a plan, each a string")
          .hint("write `[[plan(\"no copy\")]]`");
    before = &word;
  }
}

// `[[before(A, dim)]]`: a pack of the heading and a compile-time parameter or a number.
void sides(Diagnostics& diagnostics, const Function& f) {
  const std::vector<Name> packs = packs_of(f);
  for (const Attribute& word : f.attributes) {
    if (word.name.text != "before" && word.name.text != "after") continue;
    const std::optional<Side> side = side_of(word);
    const bool of_pack = side && std::find(packs.begin(), packs.end(), side->pack) != packs.end();
    const Name* axis = side ? std::get_if<Name>(&side->axis.value) : nullptr;
    const bool known =
        side && (!axis || std::any_of(f.parameters.begin(), f.parameters.end(), [&](const Parameter& p) {
          return p.name == *axis && p.choices.empty();
        }));
    if (!of_pack || !known)
      diagnostics
          .report(word.name.span, messages::attribute_values, word.name.text,
              "takes a pack of the heading and an axis, a compile-time parameter or a number")
          .hint(fmt::format("write `[[{}(B, dim)]]` for `B...`", word.name.text));
  }
}

}  // namespace

void check_attributes(const Function& f, Diagnostics& diagnostics) {
  attribute_names(diagnostics, f.attributes);
  no_effect(diagnostics, f.attributes, "on a function", {"name", "ties", "recompute", "save"});
  attribute_values(diagnostics, f.attributes);
  plan_lines(diagnostics, f.attributes);
  former_names(f, diagnostics);
  check_deprecated(f, diagnostics);
  sides(diagnostics, f);
  check_by_name(f, diagnostics);
  for (const Statement& s : f.statements) {
    attribute_names(diagnostics, s.attributes);
    attribute_values(diagnostics, s.attributes);
    if (std::holds_alternative<std::monostate>(s.node)) no_effect(diagnostics, s.attributes, "on an empty statement");
    else
      no_effect(diagnostics, s.attributes, "on a statement",
          {"plan", "formerly", "deprecated", "also", "layout", "ask", "before", "after"});
    if (std::holds_alternative<TupleAssignment>(s.node))
      no_effect(diagnostics, s.attributes, "on several results", {"name", "ties"});
  }
}

}  // namespace tilec::lang::checking
