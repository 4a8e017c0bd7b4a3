#include "cli/report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/graph.h"
#include "cli/report/assets.h"
#include "cli/report/draw.h"
#include "cli/report/html.h"
#include "codegen/explain.h"
#include "codegen/figures.h"
#include "codegen/model/machine.h"
#include "codegen/model/predict.h"
#include "codegen/report.h"
#include "codegen/rewrite.h"
#include "codegen/scan.h"
#include "codegen/simt/names.h"
#include "poly/analysis.h"
#include "poly/count.h"
#include "poly/print.h"

namespace tilec::cli::report {

namespace {

using codegen::grouped;
using codegen::Origin;
using codegen::Origins;
using codegen::scaled;
using codegen::Stages;

constexpr std::size_t longest_pane = 2'000'000;        // bytes
constexpr std::size_t most_contractions = 24, most_classes = 16;

// ---- text with links

struct Chunk { std::string text; Origin origin; };
using Chunks = std::vector<Chunk>;

// Places that something came from get the numbers 1, 2, … in the order of the text.
class Links {
 public:
  explicit Links(const Origin& used) {
    for (const std::size_t place : used) numbers_.emplace(place, numbers_.size() + 1);
  }
  bool has(std::size_t place) const { return numbers_.contains(place); }

  // Attributes of an element of this origin; empty: it came from no statement of the text.
  std::string attributes(const Origin& origin) const {
    std::vector<std::size_t> known;
    for (const std::size_t place : origin)
      if (const auto at = numbers_.find(place); at != numbers_.end()) known.push_back(at->second);
    if (known.empty()) return {};
    const std::size_t shown = std::min<std::size_t>(known.size(), 4);
    const std::string more = known.size() > shown ? fmt::format(" +{}", known.size() - shown) : "";
    return fmt::format(" data-of=\"{}\" data-chip=\"{}{}\" style=\"--id: {}\"", fmt::join(known, " "), fmt::join(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(shown), " "), more, known.front());
  }

 private:
  std::map<std::size_t, std::size_t> numbers_;
};

std::string linked(const Chunk& chunk, const Links& links) {
  const std::string attributes = links.attributes(chunk.origin);
  return attributes.empty() ? escaped(chunk.text) : fmt::format("<span{}>{}</span>", attributes, escaped(chunk.text));
}

std::string pane(const std::string& title, const std::string& about, const Chunks& chunks, const Links& links) {
  std::string html = fmt::format("<section class=\"pane\"><h3>{} <small>{}</small></h3><pre>", escaped(title), escaped(about));
  std::size_t bytes = 0, all = 0;
  for (const Chunk& chunk : chunks) all += chunk.text.size();
  for (const Chunk& chunk : chunks) {
    if (bytes >= longest_pane) break;
    const std::size_t room = longest_pane - bytes;
    const std::size_t end = chunk.text.size() <= room ? chunk.text.size() : chunk.text.rfind('\n', room) == std::string::npos ? room : chunk.text.rfind('\n', room) + 1;
    html += linked({chunk.text.substr(0, end), chunk.origin}, links);
    bytes += end;
    if (end < chunk.text.size()) break;
  }
  html += "</pre>";
  if (bytes < all) html += fmt::format("<p class=\"quiet\">Cut: these are {} of {} bytes.</p>", grouped(static_cast<std::int64_t>(bytes)), grouped(static_cast<std::int64_t>(all)));
  return html + "</section>\n";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

// poly::print gives each node a line, behind the heading and in front of the brace.
Chunks program_text(const poly::Program& program, const std::vector<Origin>& nodes) {
  const std::vector<std::string> lines = lines_of(poly::print(program));
  const std::size_t heading = lines.size() - 1 - nodes.size();
  Chunks chunks;
  for (std::size_t k = 0; k < lines.size(); ++k) {
    if (k < heading || k + 1 == lines.size()) {
      chunks.push_back({lines[k], {}});
      continue;
    }
    chunks.push_back({"  ", {}});
    chunks.push_back({lines[k].substr(2, lines[k].size() - 3), nodes[k - heading]});
    chunks.push_back({"\n", {}});
  }
  return chunks;
}

// ---- the text

void add_range(Chunks& chunks, const Report& report, const Origins& origins, const Links& links, lang::Span range) {
  const std::string& text = report.sources[range.source].text;
  std::size_t at = range.begin;
  for (std::size_t place = 0; place < origins.places().size(); ++place) {
    const lang::Span span = origins.places()[place].span;
    if (span.source != range.source || span.begin < at || span.end > range.end) continue;
    chunks.push_back({text.substr(at, span.begin - at), {}});
    Origin behind;
    for (const std::size_t one : origins.behind(place))
      if (links.has(one)) behind.insert(one);
    chunks.push_back({text.substr(span.begin, span.end - span.begin), behind});
    at = span.end;
  }
  chunks.push_back({text.substr(at, range.end - at) + "\n", {}});
}

// Of a source with several functions those that something came from; else all of it.
Chunks source_text(const Report& report, const Origins& origins, const Links& links) {
  Chunks chunks;
  for (std::uint32_t s = 0; s < report.sources.size(); ++s) {
    std::map<const lang::Function*, bool> functions;     // whether something came from them
    std::vector<const lang::Function*> order;
    for (std::size_t place = 0; place < origins.places().size(); ++place) {
      const auto& [span, function] = origins.places()[place];
      if (span.source != s) continue;
      if (functions.emplace(function, false).second) order.push_back(function);
      functions[function] = functions[function] || links.has(place);
      for (const std::size_t behind : origins.behind(place)) functions[function] = functions[function] || (s == 0 && links.has(behind));
    }
    std::erase_if(order, [&](const lang::Function* f) { return !functions[f]; });
    const auto size = static_cast<std::uint32_t>(report.sources[s].text.size());
    if (s == 0 && (functions.size() < 2 || order.empty())) {
      add_range(chunks, report, origins, links, {0, size, 0});
      continue;
    }
    for (const lang::Function* function : order) {
      chunks.push_back({fmt::format("{}// {}, line {}\n", chunks.empty() ? "" : "\n", report.sources[s].name, lang::position(report.sources[s], function->span.begin).line), {}});
      add_range(chunks, report, origins, links, function->span);
    }
  }
  return chunks;
}

// ---- plan, loops, code

struct Launches {                                       // of a part
  std::vector<Origin> nodes, groups;                    // of the plan's Program; of its groups
};

Launches launches_of(const Origins& origins, const Stages& stages) {
  Launches launches;
  launches.nodes = origins.of(*stages.reduced, *stages.plan);
  for (const codegen::Group& group : stages.plan->groups) launches.groups.push_back(Origins::of(group, launches.nodes));
  return launches;
}

Chunks plan_text(const codegen::Plan& plan, const Launches& launches) {
  Chunks chunks;
  for (const codegen::Directive& directive : plan.directives) chunks.push_back({codegen::print(directive) + "\n", {}});
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    codegen::Plan alone;
    alone.program = plan.program;
    alone.groups = {plan.groups[g]};
    chunks.push_back({codegen::print(alone), launches.groups[g]});
  }
  return chunks;
}

// Kernels, each once, and what all launches of it came from.
std::vector<std::pair<const codegen::Step*, Origin>> kernels_of(const codegen::Lowered& lowered, const Launches& launches) {
  std::vector<std::pair<const codegen::Step*, Origin>> kernels;
  std::map<std::string, std::size_t> where;
  for (const codegen::Step& step : lowered.steps) {
    const auto [at, is_new] = where.emplace(step.kernel, kernels.size());
    if (is_new) kernels.push_back({&step, {}});
    kernels[at->second].second.insert(launches.groups[step.group].begin(), launches.groups[step.group].end());
  }
  return kernels;
}

Chunks loops_text(const codegen::Lowered& lowered, const Launches& launches) {
  Chunks chunks;
  for (const auto& [step, origin] : kernels_of(lowered, launches)) {
    if (!chunks.empty()) chunks.push_back({"\n", {}});
    chunks.push_back({codegen::print(step->loops), origin});
  }
  return chunks;
}

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

// Whether a line opens a function of this name: `k0_C.body:` in assembly, `__kernel void k0_C(` in the other languages.
bool opens(const std::string& line, const std::string& name, bool assembly) {
  const std::size_t at = line.find(name);
  if (at == std::string::npos || (at > 0 && is_of_name(line[at - 1]))) return false;
  const char next = at + name.size() < line.size() ? line[at + name.size()] : '\n';
  return assembly ? at <= 1 && (next == ':' || next == '.' || next == '"') : next == '(';
}

Chunks code_text(const Part& part, const Launches& launches) {
  const auto kernels = kernels_of(*part.stages.lowered, launches);
  const bool assembly = part.language == "asm";
  Chunks chunks(1);
  for (const std::string& line : lines_of(part.code)) {
    const char first = line.front();
    const bool begins = assembly ? first != '\t' && first != ' ' && first != '.' && first != '#' && line.ends_with(":\n") : first != ' ' && first != '}' && line.find('(') != std::string::npos;
    const bool labelled = begins && !(assembly && (line.starts_with(".L") || line.starts_with("\".L")));
    if (labelled) {
      Origin origin;
      for (const auto& [step, of] : kernels)
        if (opens(line, assembly ? step->kernel : codegen::simt::identifier(step->kernel), assembly)) origin = of;
      chunks.push_back({"", origin});
    }
    chunks.back().text += line;
  }
  return chunks;
}

std::string panes(const Report& report, const Origins& origins, const Links& links) {
  std::string html = "<div class=\"panes\">\n" + pane("Source", report.sources[0].name, source_text(report, origins, links), links);
  if (report.derivative) html += pane("Gradient", "the derivative that was asked for, in the text's own sizes", program_text(*report.derivative, origins.of(*report.derivative)), links);
  for (const Part& part : report.parts) {
    const Stages& stages = part.stages;
    const std::string of = part.title.empty() ? "" : part.title + ": ";
    html += pane("Reduced program", of + "one writer for each element", program_text(*stages.reduced, origins.of(*stages.reduced)), links);
    if (!stages.plan) continue;
    const Launches launches = launches_of(origins, stages);
    html += pane("Plan", fmt::format("{}{} launches on {}", of, stages.plan->groups.size(), report.request.target.name), plan_text(*stages.plan, launches), links);
    if (stages.lowered) html += pane("Loops", of + "a nest for each kernel", loops_text(*stages.lowered, launches), links);
    if (!part.code.empty()) html += pane(part.language == "asm" ? "Assembly" : part.language == "cuda" ? "CUDA C++" : "OpenCL C", part.title, code_text(part, launches), links);
  }
  return html + "</div>\n";
}

// ---- contractions

std::string count_of(const std::optional<std::int64_t>& value) { return value ? grouped(*value) : "too many to count"; }

bool is_drawn(const poly::Node& node, const poly::Analysis& analysis) {
  const auto* statement = std::get_if<poly::Statement>(&node);
  return statement && (statement->aggregation != poly::Aggregation::Assign || analysis.course == poly::Course::Split);
}

std::string class_title(const poly::AnalysedClass& one) {
  const std::string taps = one.tap_list.empty() ? std::string() : fmt::format(", taps {}", fmt::join(one.tap_list, "; "));
  return fmt::format("{}: {} points{}", one.element, count_of(one.points), taps);
}

std::string class_table(const poly::Analysis& analysis) {
  std::string html = "<div class=\"scroll\"><table><thead><tr><th></th><th>elements</th><th class=\"number\">points</th><th class=\"number\">an element</th><th>taps</th><th>cut at borders by</th></tr></thead><tbody>\n";
  for (std::size_t k = 0; k < std::min(most_classes, analysis.classes.size()); ++k) {
    const poly::AnalysedClass& one = analysis.classes[k];
    html += fmt::format("<tr><td><span class=\"swatch\" style=\"--c: {}\"></span></td><td><code>{}</code></td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>\n", k, escaped(one.element), count_of(one.points),
                        one.taps ? grouped(*one.taps) : "as the bounds leave", escaped(fmt::format("{}", fmt::join(one.tap_list, "; "))), escaped(fmt::format("{}", fmt::join(one.guards, ", "))));
  }
  html += "</tbody></table></div>";
  if (analysis.classes.size() > most_classes) html += fmt::format("<p class=\"quiet\">and {} more classes</p>", analysis.classes.size() - most_classes);
  return html + "\n";
}

std::string useful(const poly::Analysis& analysis) {
  std::string text = fmt::format("{} points, {} executed", count_of(analysis.valid), count_of(analysis.executed));
  if (analysis.valid && analysis.executed && *analysis.executed > 0) text += fmt::format(": {:.4g} % useful", 100.0 * static_cast<double>(*analysis.valid) / static_cast<double>(*analysis.executed));
  if (analysis.valid && analysis.box && *analysis.box > *analysis.valid) text += fmt::format("; a nest that tests each point of the box would visit {}", grouped(*analysis.box));
  return text;
}

std::string figure(const std::string& svg, const std::string& about) { return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", svg, escaped(about)); }

std::string with_caption(std::string about, const poly::Projection& projection) {
  const std::string more = caption(projection);
  return more.empty() ? about + "." : fmt::format("{}: {}.", about, more);
}

std::string contraction(const poly::Program& program, const poly::Statement& statement, const poly::Analysis& analysis, const Origin& origin, const Links& links) {
  std::vector<std::string> titles;
  for (const poly::AnalysedClass& one : analysis.classes) titles.push_back(class_title(one));
  const poly::Projections projections = poly::project(program, statement);
  std::string html = fmt::format("<section class=\"contraction\"><h3><code{}>{}</code></h3>\n<div class=\"figures\">", links.attributes(origin), escaped(poly::print(program, statement)));
  for (const poly::Projection& domain : projections.domain) {
    std::vector<std::string> names;
    for (const poly::Axis& axis : domain.axes) names.push_back(axis.name);
    const std::string over = fmt::format("{}", fmt::join(names, " and "));
    html += figure(draw(domain, titles, "points of the domain over " + over), with_caption("The domain over " + over, domain));
  }
  for (const poly::Projection& elements : projections.elements)
    html += figure(draw(elements, titles, "elements by their class"), with_caption(fmt::format("Elements of {} by their class; small dots hold the fill", program.tensor(statement.target.tensor).name), elements));
  html += "</div>\n" + fmt::format("<p>{}.</p>", escaped(useful(analysis)));
  for (const std::string& note : analysis.notes) html += fmt::format("<p class=\"quiet\">{}</p>", escaped(note));
  if (analysis.classes.size() > 1) html += "<p class=\"quiet\">A colour is a residue class: elements that are a period apart and have the same taps. Points of several classes may fall on one place of a picture, which then has the colour of the first.</p>";
  return html + class_table(analysis) + "</section>\n";
}

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
  if (html.empty()) html = "<p>There is no contraction: each element is computed from its own operands.</p>\n";
  if (left_out > 0) html += fmt::format("<p class=\"quiet\">Of {} contractions the first {} are drawn.</p>\n", drawn, most_contractions);
  if (others > 0) html += fmt::format("<p class=\"quiet\">{} other statement{} compute{} each element by itself and {} not drawn.</p>\n", others, others == 1 ? "" : "s", others == 1 ? "s" : "", others == 1 ? "is" : "are");
  return html;
}

// ---- launches and roofline

// Scalar operations of a launch as its leaves compute it: a scan goes one step for each element.
double operations_of(const poly::Program& program, const codegen::Group& group) {
  double sum = 0;
  for (const codegen::Compute& leaf : group.body) {
    const poly::Node& node = program.nodes[static_cast<std::size_t>(leaf.node)];
    const auto* statement = std::get_if<poly::Statement>(&node);
    if (leaf.is<codegen::forms::Fill>()) continue;
    if (statement && codegen::scan_of(*statement)) sum += codegen::elements(program, statement->target.tensor) * static_cast<double>(poly::scalar_operations(statement->value) + 1);
    else sum += static_cast<double>(poly::operations(program, node).count);
  }
  return sum;
}

std::string milliseconds(double ms) { return ms <= 0 ? "0" : ms < 1e-3 ? fmt::format("{:.3g} ns", ms * 1e6) : ms < 1 ? fmt::format("{:.3g} µs", ms * 1e3) : fmt::format("{:.4g} ms", ms); }

std::string bar(double part) { return fmt::format("<td class=\"bar\"><i style=\"width: {:.1f}%\"></i></td>", std::clamp(100 * part, 0.0, 100.0)); }

struct Row {
  std::string part, name, leaves;
  Origin origin;
  double operations = 0;
  codegen::model::Prediction predicted;
  std::optional<double> measured;                      // milliseconds
};

std::vector<Row> rows_of(const Report& report, const Origins& origins) {
  std::vector<Row> rows;
  for (const Part& part : report.parts) {
    if (!part.stages.plan) continue;
    const codegen::Plan& plan = *part.stages.plan;
    const codegen::model::PlanPrediction predicted = codegen::model::predict(plan, part.stages.strides, report.request.target);
    const Launches launches = launches_of(origins, part.stages);
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      std::vector<std::string> leaves;
      for (const codegen::Compute& leaf : plan.groups[g].body) leaves.push_back(fmt::format("{} {}", codegen::word_of(leaf.form), plan.program.tensor(codegen::target_of(plan.program, leaf.node)).name));
      rows.push_back({part.title, plan.groups[g].name, fmt::format("{}", fmt::join(leaves, ", ")), launches.groups[g], operations_of(plan.program, plan.groups[g]), predicted.groups[g], {}});
    }
    for (std::size_t k = 0; k < part.measured.size(); ++k) rows[rows.size() - plan.groups.size() + part.stages.lowered->steps[k].group].measured = part.measured[k];
  }
  return rows;
}

std::string launch_table(const std::vector<Row>& rows, bool timed, bool measured, bool halves) {
  double all = 0, most = 0;
  for (const Row& row : rows) all += row.predicted.milliseconds, most = std::max(most, row.predicted.milliseconds);
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
    html += fmt::format("<td>{}</td><td>{}</td>", escaped(row.name), escaped(row.leaves));
    if (timed) html += fmt::format("<td class=\"number\">{}</td>{}<td class=\"number\">{}</td>", milliseconds(row.predicted.milliseconds), bar(all > 0 ? row.predicted.milliseconds / all : 0), milliseconds(row.predicted.core));
    if (measured) html += fmt::format("<td class=\"number\">{}</td>", row.measured ? milliseconds(*row.measured) : "");
    html += fmt::format("<td class=\"number\">{}</td><td class=\"number\">{}</td>", grouped(row.operations), grouped(row.predicted.bytes.must));
    if (timed) html += fmt::format("<td class=\"number\">{}</td>", grouped(row.predicted.bytes.memory));
    html += fmt::format("<td class=\"number\">{:.3g}</td></tr>\n", row.predicted.bytes.must > 0 ? row.operations / row.predicted.bytes.must : 0);
  }
  return html + "</tbody></table></div>\n";
}

// Widths of the floats that are computed with, in bytes: f16 and bf16 are computed in f32.
std::set<int> float_widths(const Report& report) {
  std::set<int> widths;
  for (const Part& part : report.parts)
    for (const poly::Node& node : part.stages.plan->program.nodes)
      if (const auto* statement = std::get_if<poly::Statement>(&node); statement && lang::is_float(statement->value.type())) widths.insert(std::max(4, lang::bytes(statement->value.type())));
  return widths;
}

Roofline roofline_of(const Report& report, const std::vector<Row>& rows) {
  Roofline roofline;
  if (const codegen::model::Machine* machine = codegen::model::machine_of(report.request.target)) {
    const double cycles = machine->gigahertz * 1e9;
    for (const int width : float_widths(report)) {
      const double rate = 2 * machine->arithmetic / width * cycles;
      roofline.arithmetic.push_back({fmt::format("multiply-adds of f{}: {}", 8 * width, scaled(rate, " operations/s")), rate});
    }
    for (const auto& [name, level] : {std::pair{"second cache", &machine->l2}, std::pair{"last cache", &machine->l3}, std::pair{"memory", &machine->memory}}) {
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
      const std::string title = fmt::format("{}. {}: {}, {:.3g} operations a byte, {} {}", k + 1, row.name, scaled(rate, " operations/s"), intensity, milliseconds(ms), measured ? "measured" : "predicted");
      roofline.points.push_back({fmt::format("{}", k + 1), title, intensity, rate, measured});
    };
    add(row.predicted.milliseconds, false);
    if (row.measured) add(*row.measured, true);
  }
  return roofline;
}

std::string launches(const Report& report, const std::vector<Row>& rows) {
  const codegen::model::Machine* machine = codegen::model::machine_of(report.request.target);
  const bool measured = std::ranges::any_of(rows, [](const Row& row) { return row.measured.has_value(); });
  std::string html;
  if (const Roofline roofline = roofline_of(report, rows); !roofline.points.empty()) {
    std::string about = machine ? fmt::format("Roofs are those of the model's machine, one core of {} at {:g} GHz; filled points are the model's prediction for one core, where data lie in the caches as the call before left them", machine->name, machine->gigahertz) : fmt::format("The model has no machine for target {}, so there are no roofs", report.request.target.name);
    if (measured) about += "; rings are the median of measured calls, on " + (report.request.threads_hint == 1 ? std::string("one thread") : fmt::format("{} threads", report.request.threads_hint));
    html += figure(draw(roofline, "roofline: operations a second over operations a byte"), about + ". Numbers are those of the table.");
    const auto missing = std::ranges::count_if(rows, [](const Row& row) { return row.operations <= 0 || row.predicted.bytes.must <= 0; });
    if (missing > 0) html += fmt::format("<p class=\"quiet\">{} launch{} without arithmetic or memory {} not drawn.</p>\n", missing, missing == 1 ? "" : "es", missing == 1 ? "is" : "are");
  } else if (!machine) html += fmt::format("<p class=\"quiet\">The model predicts no times for target {}; `--measure` shows measured ones where it runs.</p>\n", escaped(report.request.target.name));
  return html + launch_table(rows, machine != nullptr, measured, report.parts.size() > 1);
}

// ---- passes, and what is kept

std::string passes(const Report& report) {
  double all = 0, most = 0;
  for (const auto& [what, timings] : report.timings)
    for (const codegen::Timing& timing : timings) all += timing.milliseconds, most = std::max(most, timing.milliseconds);
  std::string html = "<div class=\"scroll\"><table><thead><tr><th>of</th><th>pass</th><th class=\"number\">time</th><th></th></tr></thead><tbody>\n";
  for (const auto& [what, timings] : report.timings)
    for (const codegen::Timing& timing : timings)
      html += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td>{}</tr>\n", escaped(what), escaped(timing.pass), milliseconds(timing.milliseconds), bar(most > 0 ? timing.milliseconds / most : 0));
  return html + fmt::format("<tr><td></td><td>all</td><td class=\"number\">{}</td><td></td></tr></tbody></table></div>\n", milliseconds(all));
}

std::string kept(const autodiff::Split& split) {
  std::int64_t saved = 0;
  std::string html = "<div class=\"scroll\"><table><thead><tr><th>tensor</th><th>backward has it as</th><th class=\"number\">bytes</th><th>why</th></tr></thead><tbody>\n";
  for (const codegen::KeptRow& row : codegen::kept_rows(split)) {
    if (row.way == "saved") saved += row.bytes;
    html += fmt::format("<tr><td><code>{}</code></td><td>{}</td><td class=\"number\">{}</td><td>{}</td></tr>\n", escaped(row.tensor), row.way, grouped(row.bytes), escaped(row.why));
  }
  return html + fmt::format("</tbody></table></div>\n<p>Forward saves {} bytes for backward, beside its inputs and outputs.</p>\n", grouped(saved));
}

// ---- the whole

std::string ports_text(const poly::Program& program, const std::vector<poly::TensorId>& ids) {
  std::vector<std::string> all;
  for (const poly::TensorId id : ids) {
    std::vector<std::string> shape;
    for (const poly::Size& size : program.tensor(id).shape) shape.push_back(size.print());
    all.push_back(fmt::format("{} {}[{}]", lang::name(program.tensor(id).dtype), program.tensor(id).name, fmt::join(shape, ", ")));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string fact(const std::string& value, const std::string& what) { return fmt::format("<li><b>{}</b>{}</li>", escaped(value), escaped(what)); }

std::string summary(const Report& report, const std::vector<Row>& rows) {
  std::string html;
  for (const Part& part : report.parts) {
    const poly::Program& program = *part.stages.bounded;
    html += fmt::format("<p><code>{}({}) → ({})</code></p>\n", escaped(part.title.empty() ? report.name : report.name + ", " + part.title), escaped(ports_text(program, program.inputs)), escaped(ports_text(program, program.outputs)));
  }
  double predicted = 0, measured = 0, operations = 0, passes = 0;
  bool ran = false;
  std::int64_t workspace = 0;
  for (const Row& row : rows) predicted += row.predicted.milliseconds, operations += row.operations, measured += row.measured.value_or(0), ran = ran || row.measured;
  for (const auto& [what, timings] : report.timings)
    for (const codegen::Timing& timing : timings) passes += timing.milliseconds;
  for (const Part& part : report.parts) workspace += part.workspace;
  html += "<ul class=\"facts\">" + fact(report.request.target.name, "target");
  if (!rows.empty()) html += fact(fmt::format("{}", rows.size()), rows.size() == 1 ? "launch" : "launches") + fact(scaled(operations, " operations"), "a call");
  if (codegen::model::predicts_time(report.request.target)) html += fact(milliseconds(predicted), "predicted, on one core");
  if (ran) html += fact(milliseconds(measured), "measured");
  if (!rows.empty()) html += fact(scaled(static_cast<double>(workspace), "B"), "workspace");
  return html + fact(milliseconds(passes), "to compile") + "</ul>\n";
}

std::string words(const Report& report) {
  std::string html;
  for (const Part& part : report.parts)
    html += fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", part.title.empty() ? "What becomes of each statement, and why" : fmt::format("The same of {}", part.title), escaped(codegen::explain(part.stages, report.request.target)));
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
  std::string html = fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><meta name=\"generator\" content=\"tilec " TILEC_VERSION "\"><title>{} – tilec report</title>\n<style>\n{}</style></head>\n<body>\n<h1>{}</h1>\n",
                                 escaped(report.name), styles().front().text, escaped(report.name));
  html += summary(report, rows);
  html += "<nav><a href=\"#stages\">Stages</a><a href=\"#contractions\">Contractions</a>";
  if (!rows.empty()) html += "<a href=\"#launches\">Launches</a>";
  if (report.split) html += "<a href=\"#kept\">What backward keeps</a>";
  html += "<a href=\"#passes\">Passes</a><a href=\"#words\">In words</a></nav>\n";
  html += "<h2 id=\"stages\">From the text to the code</h2>\n<p class=\"quiet\">A number is a statement of the source; what carries it came from that statement, and a launch that computes several statements carries theirs. Directives of a plan and code that kernels share carry none. Point at one, or choose it by a click or Enter, to see it in every stage; Escape lets it go.</p>\n";
  html += panes(report, origins, links);
  html += "<h2 id=\"contractions\">Contractions</h2>\n" + contractions(report, origins, links);
  if (!rows.empty()) html += "<h2 id=\"launches\">Launches</h2>\n" + launches(report, rows);
  if (report.split) html += "<h2 id=\"kept\">What backward has of forward</h2>\n" + kept(*report.split);
  html += "<h2 id=\"passes\">Passes</h2>\n" + passes(report);
  html += "<h2 id=\"words\">In words</h2>\n" + words(report);
  html += "<script>\n";
  html += scripts().front().text;
  return html + "</script>\n</body></html>\n";
}

}  // namespace tilec::cli::report
