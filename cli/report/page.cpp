#include "cli/report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/report/assets.h"
#include "cli/report/html.h"
#include "cli/report/sections.h"
#include "codegen/explain.h"
#include "codegen/figures.h"
#include "codegen/report.h"

namespace tilec::cli::report {

std::string figure(const std::string& svg, const std::string& about) {
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", svg, escaped(about));
}

std::string milliseconds(double ms) {
  return ms <= 0  ? "0"
      : ms < 1e-3 ? fmt::format("{:.3g} ns", ms * 1e6)
      : ms < 1    ? fmt::format("{:.3g} µs", ms * 1e3)
                  : fmt::format("{:.4g} ms", ms);
}

std::string bar(double part) {
  return fmt::format("<td class=\"bar\"><i style=\"width: {:.1f}%\"></i></td>", std::clamp(100 * part, 0.0, 100.0));
}

namespace {

using codegen::grouped;
using codegen::scaled;

std::string passes(const Report& report) {
  double all = 0, most = 0;
  for (const auto& [what, timings] : report.timings)
    for (const codegen::Timing& timing : timings)
      all += timing.milliseconds, most = std::max(most, timing.milliseconds);
  std::string html =
      "<div class=\"scroll\"><table><thead><tr><th>of</th><th>pass</th><th class=\"number\">time</th><th></th></tr></thead><tbody>\n";
  for (const auto& [what, timings] : report.timings)
    for (const codegen::Timing& timing : timings)
      html += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td>{}</tr>\n", escaped(what),
          escaped(timing.pass), milliseconds(timing.milliseconds), bar(most > 0 ? timing.milliseconds / most : 0));
  return html +
      fmt::format("<tr><td></td><td>all</td><td class=\"number\">{}</td><td></td></tr></tbody></table></div>\n",
          milliseconds(all));
}

std::string kept(const autodiff::Split& split) {
  std::int64_t saved = 0;
  std::string html =
      "<div class=\"scroll\"><table><thead><tr><th>tensor</th><th>backward has it as</th><th class=\"number\">bytes</th><th>why</th></tr></thead><tbody>\n";
  for (const codegen::KeptRow& row : codegen::kept_rows(split)) {
    if (row.way == "saved") saved += row.bytes;
    html += fmt::format("<tr><td><code>{}</code></td><td>{}</td><td class=\"number\">{}</td><td>{}</td></tr>\n",
        escaped(row.tensor), row.way, grouped(row.bytes), escaped(row.why));
  }
  return html +
      fmt::format(
          "</tbody></table></div>\n<p>Forward saves {} bytes for backward, beside its inputs and outputs.</p>\n",
          grouped(saved));
}

std::string ports_text(const poly::Program& program, const std::vector<poly::TensorId>& ids) {
  std::vector<std::string> all;
  for (const poly::TensorId id : ids) {
    std::vector<std::string> shape;
    for (const poly::Size& size : program.tensor(id).shape) shape.push_back(size.print());
    all.push_back(fmt::format(
        "{} {}[{}]", lang::name(program.tensor(id).dtype), program.tensor(id).name, fmt::join(shape, ", ")));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string fact(const std::string& value, const std::string& what) {
  return fmt::format("<li><b>{}</b>{}</li>", escaped(value), escaped(what));
}

std::string summary(const Report& report, const std::vector<Row>& rows) {
  std::string html;
  for (const Part& part : report.parts) {
    const poly::Program& program = *part.stages.bounded;
    html += fmt::format("<p><code>{}({}) → ({})</code></p>\n",
        escaped(part.title.empty() ? report.name : report.name + ", " + part.title),
        escaped(ports_text(program, program.inputs)), escaped(ports_text(program, program.outputs)));
  }
  double predicted = 0, measured = 0, operations = 0, passes = 0;
  bool ran = false;
  std::int64_t workspace = 0;
  for (const Row& row : rows)
    predicted += row.predicted.milliseconds, operations += row.operations, measured += row.measured.value_or(0),
        ran = ran || row.measured;
  for (const auto& [what, timings] : report.timings)
    for (const codegen::Timing& timing : timings) passes += timing.milliseconds;
  for (const Part& part : report.parts) workspace += part.workspace;
  html += "<ul class=\"facts\">" + fact(report.request.target.name, "target");
  if (!rows.empty())
    html += fact(fmt::format("{}", rows.size()), rows.size() == 1 ? "launch" : "launches") +
        fact(scaled(operations, " operations"), "a call");
  if (codegen::model::predicts_time(report.request.target))
    html += fact(milliseconds(predicted), "predicted, on one core");
  if (ran) html += fact(milliseconds(measured), "measured");
  if (!rows.empty()) html += fact(scaled(static_cast<double>(workspace), "B"), "workspace");
  return html + fact(milliseconds(passes), "to compile") + "</ul>\n";
}

std::string words(const Report& report) {
  std::string html;
  for (const Part& part : report.parts)
    html += fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
        part.title.empty() ? "What becomes of each statement, and why" : fmt::format("The same of {}", part.title),
        escaped(codegen::explain(part.stages, report.request.target)));
  return html;
}

Origin used(const Report& report, const Origins& origins) {
  Origin found;
  const auto add = [&](const std::vector<Origin>& nodes) {
    for (const Origin& one : nodes) found.insert(one.begin(), one.end());
  };
  if (report.derivative) add(origins.of(*report.derivative));
  for (const Part& part : report.parts) add(origins.of(*part.stages.bounded)), add(origins.of(*part.stages.reduced));
  return found;
}

}  // namespace

std::string page(const Report& report) {
  const Origins origins(report.file);
  const Links links(used(report, origins));
  const std::vector<Row> rows = rows_of(report, origins);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><meta name=\"generator\" content=\"tilec " TILEC_VERSION
      "\"><title>{} – tilec report</title>\n<style>\n{}</style></head>\n<body>\n<h1>{}</h1>\n",
      escaped(report.name), styles().front().text, escaped(report.name));
  html += summary(report, rows);
  html += "<nav><a href=\"#stages\">Stages</a><a href=\"#contractions\">Contractions</a>";
  if (!rows.empty()) html += "<a href=\"#launches\">Launches</a>";
  if (report.split) html += "<a href=\"#kept\">What backward keeps</a>";
  html += "<a href=\"#passes\">Passes</a><a href=\"#words\">In words</a></nav>\n";
  html +=
      "<h2 id=\"stages\">From the text to the code</h2>\n<p class=\"quiet\">A number is a statement of the source, or an input where a gradient or a copy is of it; what carries it came from there, and a launch that computes several statements carries theirs. Directives of a plan and code that belongs to no kernel carry none. Point at one, or choose it by a click or Enter, to see it in every stage; Escape lets it go.</p>\n";
  html += panes(report, origins, links);
  html += "<h2 id=\"contractions\">Contractions</h2>\n" + contractions(report, origins, links);
  if (!rows.empty()) html += "<h2 id=\"launches\">Launches</h2>\n" + launches(report, rows, links);
  if (report.split) html += "<h2 id=\"kept\">What backward has of forward</h2>\n" + kept(*report.split);
  html += "<h2 id=\"passes\">Passes</h2>\n" + passes(report);
  html += "<h2 id=\"words\">In words</h2>\n" + words(report);
  html += "<script>\n";
  html += scripts().front().text;
  return html + "</script>\n</body></html>\n";
}

}  // namespace tilec::cli::report
