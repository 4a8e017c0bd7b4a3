// Each stage as text in pieces, and where each piece came from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "cli/report/html.h"
#include "cli/report/sections.h"
#include "codegen/figures.h"
#include "codegen/simt/names.h"
#include "poly/print.h"

namespace tilec::cli::report {

Links::Links(const Origin& used) {
  for (const std::size_t place : used) numbers_.emplace(place, numbers_.size() + 1);
}

std::string Links::attributes(const Origin& origin) const {
  std::vector<std::size_t> known;
  for (const std::size_t place : origin)
    if (const auto at = numbers_.find(place); at != numbers_.end()) known.push_back(at->second);
  if (known.empty()) return {};
  const std::size_t shown = std::min<std::size_t>(known.size(), 4);
  const std::string more = known.size() > shown ? fmt::format(" +{}", known.size() - shown) : "";
  return fmt::format(" data-of=\"{}\" data-chip=\"{}{}\" style=\"--id: {}\"", fmt::join(known, " "),
      fmt::join(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(shown), " "), more, known.front());
}

namespace {

using codegen::grouped;
using codegen::Stages;

constexpr std::size_t longest_pane = 2'000'000;        // bytes

struct Chunk { std::string text; Origin origin; };
using Chunks = std::vector<Chunk>;

std::string linked(const Chunk& chunk, const Links& links) {
  const std::string attributes = links.attributes(chunk.origin);
  return attributes.empty() ? escaped(chunk.text) : fmt::format("<span{}>{}</span>", attributes, escaped(chunk.text));
}

std::string pane(const std::string& title, const std::string& about, const Chunks& chunks, const Links& links) {
  std::string html =
      fmt::format("<section class=\"pane\"><h3>{} <small>{}</small></h3><pre>", escaped(title), escaped(about));
  std::size_t bytes = 0, all = 0;
  for (const Chunk& chunk : chunks) all += chunk.text.size();
  for (const Chunk& chunk : chunks) {
    if (bytes >= longest_pane) break;
    const std::size_t room = longest_pane - bytes;
    const std::size_t end = chunk.text.size() <= room       ? chunk.text.size()
        : chunk.text.rfind('\n', room) == std::string::npos ? room
                                                            : chunk.text.rfind('\n', room) + 1;
    html += linked({chunk.text.substr(0, end), chunk.origin}, links);
    bytes += end;
    if (end < chunk.text.size()) break;
  }
  html += "</pre>";
  if (bytes < all)
    html += fmt::format("<p class=\"quiet\">Cut: these are {} of {} bytes.</p>",
        grouped(static_cast<std::int64_t>(bytes)), grouped(static_cast<std::int64_t>(all)));
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
  chunks.push_back({text.substr(at, range.end - at), {}});
  if (range.end == range.begin || text[range.end - 1] != '\n') chunks.push_back({"\n", {}});
}

// Those that something came from, and those from whose calls it came.
std::set<const lang::Function*> shown_functions(const Report& report, const Origins& origins, const Links& links) {
  std::set<const lang::Function*> shown;
  for (std::size_t place = 0; place < origins.places().size(); ++place) {
    const lang::Function* function = origins.places()[place].function;
    if (links.has(place)) shown.insert(function);
    if (function != report.entry) continue;
    for (const std::size_t behind : origins.behind(place)) shown.insert(origins.places()[behind].function);
  }
  return shown;
}

// All of the file where it has one function; else, and of what it imports, the functions that matter.
Chunks source_text(const Report& report, const Origins& origins, const Links& links) {
  Chunks chunks;
  const std::set<const lang::Function*> shown = shown_functions(report, origins, links);
  for (std::uint32_t s = 0; s < report.sources.size(); ++s) {
    const lang::Source& source = report.sources[s];
    std::vector<const lang::Function*> functions;        // of this source
    for (const auto& [span, function, is_input] : origins.places())
      if (span.source == s && (functions.empty() || functions.back() != function)) functions.push_back(function);
    if (s == 0 && functions.size() < 2) {
      add_range(chunks, report, origins, links, {0, static_cast<std::uint32_t>(source.text.size()), 0});
      continue;
    }
    for (const lang::Function* function : functions) {
      if (!shown.contains(function)) continue;
      chunks.push_back({fmt::format("{}// {}, line {}\n", chunks.empty() ? "" : "\n", source.name,
                            lang::position(source, function->span.begin).line),
          {}});
      add_range(chunks, report, origins, links, function->span);
    }
  }
  return chunks;
}

Chunks plan_text(const codegen::Plan& plan, const std::vector<Origin>& groups) {
  Chunks chunks;
  for (const codegen::Directive& directive : plan.directives) chunks.push_back({codegen::print(directive) + "\n", {}});
  codegen::Plan alone;
  alone.program = plan.program;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    alone.groups = {plan.groups[g]};
    chunks.push_back({codegen::print(alone), groups[g]});
  }
  return chunks;
}

// Kernels, each once, and what all launches of it came from.
std::vector<std::pair<const codegen::Step*, Origin>> kernels_of(
    const codegen::Lowered& lowered, const std::vector<Origin>& groups) {
  std::vector<std::pair<const codegen::Step*, Origin>> kernels;
  std::map<std::string, std::size_t> where;
  for (const codegen::Step& step : lowered.steps) {
    const auto [at, is_new] = where.emplace(step.kernel, kernels.size());
    if (is_new) kernels.push_back({&step, {}});
    for (const std::size_t group : step.groups)
      kernels[at->second].second.insert(groups[group].begin(), groups[group].end());
  }
  return kernels;
}

Chunks loops_text(const codegen::Lowered& lowered, const std::vector<Origin>& groups) {
  Chunks chunks;
  for (const auto& [step, origin] : kernels_of(lowered, groups)) {
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

Chunks code_text(const Part& part, const std::vector<Origin>& groups) {
  const auto kernels = kernels_of(*part.stages.lowered, groups);
  const bool assembly = part.language == "asm";
  Chunks chunks(1);
  for (const std::string& line : lines_of(part.code)) {
    const char first = line.front();
    const bool begins = assembly
        ? first != '\t' && first != ' ' && first != '.' && first != '#' && line.ends_with(":\n")
        : first != ' ' && first != '}' && line.find('(') != std::string::npos;
    const bool labelled = begins && !(assembly && (line.starts_with(".L") || line.starts_with("\".L")));
    if (assembly && line.starts_with("\t.section")) chunks.emplace_back();  // constants, of what follows
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

const char* name_of(const codegen::Derivative& derivative) {
  return derivative.batch ? "Batch" : derivative.forward ? "Forward derivative" : "Gradient";
}

}  // namespace

std::vector<Origin> origins_of_groups(const Origins& origins, const Stages& stages) {
  const std::vector<Origin> nodes = origins.of(*stages.reduced, *stages.plan);
  std::vector<Origin> groups;
  for (const codegen::Group& group : stages.plan->groups) groups.push_back(Origins::of(group, nodes));
  return groups;
}

std::string panes(const Report& report, const Origins& origins, const Links& links) {
  std::string html =
      "<div class=\"panes\">\n" + pane("Source", report.sources[0].name, source_text(report, origins, links), links);
  if (report.derivative)
    html += pane(name_of(report.request.derivatives.back()), "in the sizes of the text",
        program_text(*report.derivative, origins.of(*report.derivative)), links);
  for (const Part& part : report.parts) {
    const Stages& stages = part.stages;
    const std::string of = part.title.empty() ? "" : part.title + ": ";
    html += pane("Reduced program", of + "one writer for each element",
        program_text(*stages.reduced, origins.of(*stages.reduced)), links);
    if (!stages.plan) continue;
    const std::vector<Origin> groups = origins_of_groups(origins, stages);
    html += pane("Plan", fmt::format("{}{} launches on {}", of, stages.plan->groups.size(), report.request.target.name),
        plan_text(*stages.plan, groups), links);
    if (stages.lowered)
      html += pane("Loops", of + "a nest for each kernel", loops_text(*stages.lowered, groups), links);
    if (!part.code.empty())
      html += pane(part.language == "asm" ? "Assembly"
              : part.language == "cuda"   ? "CUDA C++"
                                          : "OpenCL C",
          part.title, code_text(part, groups), links);
  }
  return html + "</div>\n";
}

}  // namespace tilec::cli::report
