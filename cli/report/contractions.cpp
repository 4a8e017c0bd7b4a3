// A contraction in pictures: its points and its elements, coloured by residue class, and what was found out about it
// (poly/analysis.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/report/draw.h"
#include "cli/report/html.h"
#include "cli/report/sections.h"
#include "codegen/figures.h"
#include "poly/analysis.h"
#include "poly/print.h"
#include "poly/projection.h"

namespace tilec::cli::report {

namespace {

using codegen::grouped;

constexpr std::size_t most_contractions = 24, most_classes = 16, most_taps = 6;

std::string count_of(const std::optional<std::int64_t>& value) { return value ? grouped(*value) : "too many to count"; }

bool is_drawn(const poly::Node& node, const poly::Analysis& analysis) {
  const auto* statement = std::get_if<poly::Statement>(&node);
  return statement && (statement->aggregation != poly::Aggregation::Assign || analysis.course == poly::Course::Split);
}

std::string taps_of(const poly::AnalysedClass& one) {
  const std::size_t shown = std::min(most_taps, one.tap_list.size());
  const std::string more = one.tap_list.size() > shown ? fmt::format("; and {} more", one.tap_list.size() - shown) : "";
  return fmt::format(
      "{}{}", fmt::join(one.tap_list.begin(), one.tap_list.begin() + static_cast<std::ptrdiff_t>(shown), "; "), more);
}

std::string class_title(const poly::AnalysedClass& one) {
  return fmt::format(
      "{}: {} points{}{}", one.element, count_of(one.points), one.tap_list.empty() ? "" : ", taps ", taps_of(one));
}

std::string class_table(const poly::Analysis& analysis) {
  const bool taps = std::ranges::any_of(analysis.classes, [](const auto& one) { return !one.tap_list.empty(); }),
             guards = std::ranges::any_of(analysis.classes, [](const auto& one) { return !one.guards.empty(); });
  std::string html =
      "<div class=\"scroll\"><table><thead><tr><th></th><th>elements</th><th class=\"number\">points</th><th class=\"number\">an element</th>";
  html += fmt::format(
      "{}{}</tr></thead><tbody>\n", taps ? "<th>taps</th>" : "", guards ? "<th>cut at borders by</th>" : "");
  for (std::size_t k = 0; k < std::min(most_classes, analysis.classes.size()); ++k) {
    const poly::AnalysedClass& one = analysis.classes[k];
    html += fmt::format(
        "<tr><td><span class=\"swatch\" style=\"--c: {}\"></span></td><td><code>{}</code></td><td class=\"number\">{}</td><td class=\"number\">{}</td>",
        k, escaped(one.element), count_of(one.points), one.taps ? grouped(*one.taps) : "as the bounds leave");
    if (taps) html += fmt::format("<td>{}</td>", escaped(taps_of(one)));
    if (guards) html += fmt::format("<td>{}</td>", escaped(fmt::format("{}", fmt::join(one.guards, ", "))));
    html += "</tr>\n";
  }
  html += "</tbody></table></div>";
  if (analysis.classes.size() > most_classes)
    html += fmt::format("<p class=\"quiet\">and {} more classes</p>", analysis.classes.size() - most_classes);
  return html + "\n";
}

std::string useful(const poly::Analysis& analysis) {
  std::string text = fmt::format("{} points, {} executed", count_of(analysis.valid), count_of(analysis.executed));
  if (analysis.valid && analysis.executed && *analysis.executed > 0)
    text += fmt::format(
        ": {:.4g} % useful", 100.0 * static_cast<double>(*analysis.valid) / static_cast<double>(*analysis.executed));
  if (analysis.valid && analysis.box && *analysis.box > *analysis.valid)
    text += fmt::format("; a nest that tests each point of the box would visit {}", grouped(*analysis.box));
  return text;
}

std::string with_caption(std::string about, const poly::Projection& projection) {
  const std::string more = caption(projection);
  return more.empty() ? about + "." : fmt::format("{}: {}.", about, more);
}

// Whether some element of the window has no point.
bool has_gaps(const poly::Projection& projection) {
  std::int64_t places = 1;
  for (const poly::Axis& axis : projection.axes) places *= axis.shown;
  return std::ssize(projection.points) < places;
}

std::string contraction(const poly::Program& program, const poly::Statement& statement, const poly::Analysis& analysis,
    const Origin& origin, const Links& links) {
  std::vector<std::string> titles;
  for (const poly::AnalysedClass& one : analysis.classes) titles.push_back(class_title(one));
  const poly::Projections projections = poly::project(program, statement);
  std::string html = fmt::format("<section class=\"contraction{}\"><h3><code{}>{}</code></h3>\n<div class=\"figures\">",
      analysis.classes.size() > 1 ? " wide" : "", links.attributes(origin), escaped(poly::print(program, statement)));
  for (const poly::Projection& domain : projections.domain) {
    std::vector<std::string> names;
    for (const poly::Axis& axis : domain.axes) names.push_back(axis.name);
    const std::string over = fmt::format("{}", fmt::join(names, " and "));
    html += figure(
        draw(domain, titles, "points of the domain over " + over), with_caption("The domain over " + over, domain));
  }
  for (const poly::Projection& elements : projections.elements)
    if (analysis.classes.size() > 1 || has_gaps(elements))
      html += figure(draw(elements, titles, "elements by their class"),
          with_caption(fmt::format("Elements of {} by their class; small dots hold the fill",
                           program.tensor(statement.target.tensor).name),
              elements));
  html += "</div>\n" + fmt::format("<p>{}.</p>", escaped(useful(analysis)));
  for (const std::string& note : analysis.notes) html += fmt::format("<p class=\"quiet\">{}</p>", escaped(note));
  if (analysis.classes.size() > 1)
    html +=
        "<p class=\"quiet\">A colour is a residue class: elements that are a period apart and have the same taps. Points of several classes may fall on one place of a picture, which then has the colour of the first.</p>";
  return html + class_table(analysis) + "</section>\n";
}

}  // namespace

std::string contractions(const Report& report, const Origins& origins, const Links& links) {
  std::string html;
  std::size_t drawn = 0, others = 0, left_out = 0;
  for (const Part& part : report.parts) {
    const poly::Program& program = *part.stages.bounded;
    const std::vector<Origin> nodes = origins.of(program);
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const auto* statement = std::get_if<poly::Statement>(&program.nodes[k]);
      const poly::Analysis analysis = statement ? poly::analyse(program, *statement) : poly::Analysis{};
      if (!is_drawn(program.nodes[k], analysis)) ++others;
      else if (++drawn > most_contractions) ++left_out;
      else html += contraction(program, *statement, analysis, nodes[k], links);
    }
  }
  html = html.empty() ? "<p>There is no contraction: each element is computed from its own operands.</p>\n"
                      : "<div class=\"contractions\">\n" + html + "</div>\n";
  if (left_out > 0)
    html +=
        fmt::format("<p class=\"quiet\">Of {} contractions the first {} are drawn.</p>\n", drawn, most_contractions);
  if (others > 0)
    html +=
        fmt::format("<p class=\"quiet\">{} other statement{} compute{} each element by itself and {} not drawn.</p>\n",
            others, others == 1 ? "" : "s", others == 1 ? "s" : "", others == 1 ? "is" : "are");
  return html;
}

}  // namespace tilec::cli::report
