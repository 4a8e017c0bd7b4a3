// What each launch does, should take and took: as a table, and as points under the roofs of the model's machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/report/draw.h"
#include "cli/report/html.h"
#include "cli/report/sections.h"
#include "codegen/figures.h"
#include "codegen/model/machine.h"
#include "codegen/rewrite.h"
#include "codegen/scan.h"
#include "poly/count.h"

namespace tilec::cli::report {

namespace {

using codegen::grouped;
using codegen::scaled;

// Scalar operations of a launch as its leaves compute it: a scan goes one step for each element.
poly::Operations operations_of(const poly::Program& program, const codegen::Group& group) {
  poly::Operations sum{0, true};
  for (const codegen::Compute& leaf : group.body) {
    const poly::Node& node = program.nodes[static_cast<std::size_t>(leaf.node)];
    const auto* statement = std::get_if<poly::Statement>(&node);
    if (leaf.is<codegen::forms::Fill>()) continue;
    if (statement && codegen::scan_of(*statement))
      sum.count += static_cast<std::int64_t>(codegen::elements(program, statement->target.tensor)) *
          (poly::scalar_operations(statement->value) + 1);
    else {
      const poly::Operations counted = poly::operations(program, node);
      sum = {sum.count + counted.count, sum.exact && counted.exact};
    }
  }
  return sum;
}

std::string launch_table(const std::vector<Row>& rows, const Links& links, bool timed, bool measured, bool halves) {
  double all = 0;
  for (const Row& row : rows) all += row.predicted.milliseconds;
  std::string html = "<div class=\"scroll\"><table><thead><tr><th class=\"number\">no.</th>";
  if (halves) html += "<th>half</th>";
  html += "<th>launch</th><th>computes</th>";
  if (timed) html += "<th class=\"number\">predicted</th><th>share</th><th class=\"number\">core alone</th>";
  if (measured) html += "<th class=\"number\">measured</th>";
  html += "<th class=\"number\">operations</th><th class=\"number\">bytes that must move</th>";
  if (timed) html += "<th class=\"number\">from and to memory</th>";
  html += "<th class=\"number\">operations a byte</th></tr></thead><tbody>\n";
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const Row& row = rows[k];
    html += fmt::format("<tr><td class=\"number\">{}</td>", k + 1);
    if (halves) html += fmt::format("<td>{}</td>", escaped(row.part));
    html += fmt::format(
        "<td><span{}>{}</span></td><td>{}</td>", links.attributes(row.origin), escaped(row.name), escaped(row.leaves));
    if (timed)
      html += fmt::format("<td class=\"number\">{}</td>{}<td class=\"number\">{}</td>",
          milliseconds(row.predicted.milliseconds), bar(all > 0 ? row.predicted.milliseconds / all : 0),
          milliseconds(row.predicted.core));
    if (measured) html += fmt::format("<td class=\"number\">{}</td>", row.measured ? milliseconds(*row.measured) : "");
    html += fmt::format("<td class=\"number\">{}{}</td><td class=\"number\">{}</td>", row.exact ? "" : "≤ ",
        grouped(row.operations), grouped(row.predicted.bytes.must));
    if (timed) html += fmt::format("<td class=\"number\">{}</td>", grouped(row.predicted.bytes.memory));
    html += fmt::format("<td class=\"number\">{:.3g}</td></tr>\n",
        row.predicted.bytes.must > 0 ? row.operations / row.predicted.bytes.must : 0);
  }
  return html + "</tbody></table></div>\n";
}

// Widths of the floats that are computed with, in bytes: f16 and bf16 are computed in f32.
std::set<int> float_widths(const Report& report) {
  std::set<int> widths;
  for (const Part& part : report.parts)
    for (const poly::Node& node : part.stages.plan->program.nodes)
      if (const auto* statement = std::get_if<poly::Statement>(&node);
          statement && lang::is_float(statement->value.type()))
        widths.insert(std::max(4, lang::bytes(statement->value.type())));
  return widths;
}

Roofline roofline_of(const Report& report, const std::vector<Row>& rows) {
  Roofline roofline;
  if (const codegen::model::Machine* machine = codegen::model::machine_of(report.request.target)) {
    const double cycles = machine->gigahertz * 1e9;
    for (const int width : float_widths(report)) {
      const double rate = 2 * machine->arithmetic / width * cycles;
      roofline.arithmetic.push_back(
          {fmt::format("multiply-adds of f{}: {}", 8 * width, scaled(rate, " operations/s")), rate});
    }
    for (const auto& [name, level] : {std::pair{"second cache", &machine->l2}, std::pair{"last cache", &machine->l3},
             std::pair{"memory", &machine->memory}}) {
      const double rate = codegen::model::line / level->line * cycles;
      roofline.memory.push_back({fmt::format("{}: {}", name, scaled(rate, "B/s")), rate});
    }
  }
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const Row& row = rows[k];
    if (row.operations <= 0 || row.predicted.bytes.must <= 0) continue;
    const double intensity = row.operations / row.predicted.bytes.must;
    const auto add = [&](double ms, bool measured) {
      if (ms <= 0) return;
      const double rate = row.operations / (ms * 1e-3);
      const std::string title = fmt::format("{}. {}: {}, {:.3g} operations a byte, {} {}", k + 1, row.name,
          scaled(rate, " operations/s"), intensity, milliseconds(ms), measured ? "measured" : "predicted");
      roofline.points.push_back({measured && row.predicted.milliseconds > 0 ? std::string() : fmt::format("{}", k + 1),
          title, intensity, rate, measured});
    };
    add(row.predicted.milliseconds, false);
    if (row.measured) add(*row.measured, true);
  }
  return roofline;
}

// To the launch that begins with a group, the next one of it.
void add(Row& row, const Row& next) {
  row.name += ", " + next.name, row.leaves += ", " + next.leaves;
  row.origin.insert(next.origin.begin(), next.origin.end());
  row.operations += next.operations, row.exact = row.exact && next.exact;
  codegen::model::Prediction& sum = row.predicted;
  sum.milliseconds += next.predicted.milliseconds, sum.core += next.predicted.core;
  sum.bytes.memory += next.predicted.bytes.memory, sum.bytes.last += next.predicted.bytes.last;
  sum.bytes.second += next.predicted.bytes.second, sum.bytes.must += next.predicted.bytes.must;
}

// Rows of groups become those of launches.
void append_launches(std::vector<Row>& rows, std::vector<Row> groups, const Part& part) {
  std::vector<bool> joined(groups.size(), false);
  for (std::size_t k = 0; part.stages.lowered && k < part.stages.lowered->steps.size(); ++k) {
    const std::vector<std::size_t>& own = part.stages.lowered->steps[k].groups;
    for (std::size_t g = 1; g < own.size(); ++g) add(groups[own[0]], groups[own[g]]), joined[own[g]] = true;
    if (k < part.measured.size()) groups[own[0]].measured = part.measured[k];
  }
  for (std::size_t g = 0; g < groups.size(); ++g) if (!joined[g]) rows.push_back(std::move(groups[g]));
}

}  // namespace

std::vector<Row> rows_of(const Report& report, const Origins& origins) {
  std::vector<Row> rows;
  for (const Part& part : report.parts) {
    if (!part.stages.plan) continue;
    const codegen::Plan& plan = *part.stages.plan;
    const codegen::model::PlanPrediction predicted =
        codegen::model::predict(plan, part.stages.strides, report.request.target);
    const std::vector<Origin> groups = origins_of_groups(origins, part.stages);
    std::vector<Row> own;                              // of this part
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      std::vector<std::string> leaves;
      for (const codegen::Compute& leaf : plan.groups[g].body)
        leaves.push_back(fmt::format("{} {}", codegen::word_of(leaf.form),
            plan.program.tensor(codegen::target_of(plan.program, leaf.node)).name));
      const poly::Operations operations = operations_of(plan.program, plan.groups[g]);
      own.push_back({part.title, plan.groups[g].name, fmt::format("{}", fmt::join(leaves, ", ")), groups[g],
          static_cast<double>(operations.count), operations.exact, predicted.groups[g]});
    }
    append_launches(rows, std::move(own), part);
  }
  return rows;
}

std::string launches(const Report& report, const std::vector<Row>& rows, const Links& links) {
  const codegen::model::Machine* machine = codegen::model::machine_of(report.request.target);
  const bool measured = std::ranges::any_of(rows, [](const Row& row) { return row.measured.has_value(); });
  std::string html;
  if (const Roofline roofline = roofline_of(report, rows); !roofline.points.empty()) {
    std::string about = machine
        ? fmt::format(
              "Roofs are those of the model's machine, one core of {} at {:g} GHz; filled points are the model's prediction for one core, where data lie in the caches as the call before left them",
              machine->name, machine->gigahertz)
        : fmt::format("The model has no machine for target {}, so there are no roofs", report.request.target.name);
    if (measured) about += "; rings are the median of measured calls";
    if (measured && machine)
      about += report.request.threads_hint == 1 ? " on one thread"
                                                : fmt::format(" on {} threads", report.request.threads_hint);
    html += figure(draw(roofline, "roofline: operations a second over operations a byte"),
        about + ". Numbers are those of the table.");
    const auto missing = std::ranges::count_if(
        rows, [](const Row& row) { return row.operations <= 0 || row.predicted.bytes.must <= 0; });
    if (missing > 0)
      html += fmt::format("<p class=\"quiet\">{} launch{} without arithmetic or memory {} not drawn.</p>\n", missing,
          missing == 1 ? "" : "es", missing == 1 ? "is" : "are");
  } else if (!machine)
    html += fmt::format(
        "<p class=\"quiet\">The model predicts no times for target {}; `--measure` shows measured ones where it runs.</p>\n",
        escaped(report.request.target.name));
  return html + launch_table(rows, links, machine != nullptr, measured, report.parts.size() > 1);
}

}  // namespace tilec::cli::report
