#include "codegen/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "codegen/figures.h"
#include "codegen/finishing.h"
#include "codegen/joined.h"
#include "codegen/model/estimates.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/reason.h"
#include "codegen/rewrite.h"
#include "codegen/scan.h"
#include "poly/analysis.h"
#include "poly/exact.h"
#include "poly/print.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

using codegen::grouped;
std::string grouped(const std::optional<std::int64_t>& value) {
  return value ? grouped(static_cast<double>(*value)) : "uncounted (too many to count one by one)";
}

std::string plural(double n, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", grouped(n), n == 1 ? one : many);
}

std::string matrix(const poly::lattice::Matrix& a) {
  std::vector<std::string> rows;
  for (const auto& row : a) rows.push_back(fmt::format("{}", fmt::join(row, " ")));
  return rows.size() == 1 ? fmt::format("({})", rows[0]) : fmt::format("[{}]", fmt::join(rows, "; "));
}

std::string list(const std::vector<std::string>& words, std::size_t most = 6) {
  std::vector<std::string> shown(
      words.begin(), words.begin() + static_cast<std::ptrdiff_t>(std::min(words.size(), most)));
  return fmt::format(
      "{}{}", fmt::join(shown, ", "), words.size() > most ? fmt::format(" and {} more", words.size() - most) : "");
}

// A statement as Tile, without the comment that shows its domain.
std::string text_of(const Program& program, const Statement& statement) {
  const std::string text = poly::print(program, statement);
  return text.substr(0, text.find("  //"));
}

std::string target_name(const Program& program, const poly::Node& node) {
  const auto* statement = std::get_if<Statement>(&node);
  return program.tensor(statement ? statement->target.tensor : std::get<poly::Intrinsic>(node).targets.front()).name;
}

std::set<std::string> written_by(const Program& program) {
  std::set<std::string> names;
  for (const poly::Node& node : program.nodes) names.insert(target_name(program, node));
  return names;
}

// ---- what a statement means for loops -------------------------------------------------------------------------------

std::string explain_plain(const poly::AnalysedPart& part) {
  if (part.elements.empty()) return {};
  return fmt::format("    {}: {} of the element, F = {}, one point per element\n", fmt::join(part.indices, ", "),
      fmt::join(part.elements, " and "), matrix(part.F));
}

bool is_identity(const poly::lattice::Matrix& m) {
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t k = 0; k < m[i].size(); ++k)
      if (m[i][k] != (i == k)) return false;
  return true;
}

// The lattice of the indices that meet in one element.
std::string explain_lattice(const poly::AnalysedPart& part) {
  std::string text = fmt::format("    {}: {} of the element, F = {}, f = ({}); several of them meet in one element\n",
      fmt::join(part.indices, ", "), fmt::join(part.elements, " and "), matrix(part.F), fmt::join(part.f, ", "));
  text += fmt::format("      S, the rows that tell them apart: {}\n", list(part.taps));
  text += fmt::format(
      "      H = {}, U = {}, G = {}, T = {}: with i = U (y; z) the element is f + H y and the taps are G y + T z\n",
      matrix(part.H), matrix(part.U), matrix(part.G), matrix(part.T));
  if (!part.split)
    return text + "      not split: the bounds of the reduction depend on the element, no test remains\n";
  const std::string residues = plural(part.classes, "residue class", "residue classes");
  if (is_identity(part.H))
    return text +
        fmt::format("      period lattice V = {}: elements {} apart have the same taps, {}\n", matrix(part.V),
            fmt::join(part.period, " by "), residues);
  poly::lattice::Matrix between = part.H;              // y by its period, as a step of the element
  for (auto& row : between)
    for (std::size_t k = 0; k < row.size(); ++k) row[k] = (poly::Exact(row[k]) * part.period[k]).get();
  return text +
      fmt::format("      period lattice V = {} of y: y {} apart, which are elements {} apart, have the same taps, {}\n",
          matrix(part.V), fmt::join(part.period, " by "), matrix(between), residues);
}

// Nothing was to be done: the output map, and what it leaves to reduce.
std::string explain_injective(const Statement& statement) {
  poly::lattice::Matrix f;
  std::vector<std::string> kept, reduced;
  for (const poly::Affine& form : statement.target.element) {
    f.emplace_back();
    for (const poly::Size& coefficient : form.coefficients) f.back().push_back(coefficient.get());
  }
  for (std::size_t k = 0; k < statement.indices.size(); ++k)
    (std::any_of(f.begin(), f.end(), [&](const auto& row) { return row[k] != 0; }) ? kept : reduced)
        .push_back(statement.indices[k]);
  std::string text;
  if (!kept.empty())
    text +=
        fmt::format("    {}: one element for each, F = {} over {}\n", list(kept), matrix(f), list(statement.indices));
  if (!reduced.empty()) text += fmt::format("    {}: not in the element, reduced over\n", list(reduced));
  return text.empty() ? text : fmt::format("  indices\n{}", text);
}

std::string explain_parts(const Statement& statement, const poly::Analysis& analysis) {
  if (analysis.parts.empty() && analysis.divisions.empty()) return explain_injective(statement);
  std::string text;
  std::vector<std::string> reduced;
  for (const std::string& division : analysis.divisions)
    text += fmt::format("    divisions are exact for {}\n", division);
  for (const poly::AnalysedPart& part : analysis.parts) {
    text += part.plain ? explain_plain(part) : explain_lattice(part);
    if (part.plain && part.elements.empty()) reduced.insert(reduced.end(), part.indices.begin(), part.indices.end());
  }
  if (!reduced.empty()) text += fmt::format("    {}: not in the element, reduced over\n", fmt::join(reduced, ", "));
  return text.empty() ? text : fmt::format("  indices\n{}", text);
}

std::string explain_classes(const poly::Analysis& analysis) {
  if (analysis.classes.size() < 2 && analysis.course == poly::Course::Reduced && analysis.classes.size() == 1 &&
      analysis.classes[0].tap_list.empty())
    return {};
  std::string text = fmt::format("  {} without division or remainder\n",
      plural(static_cast<double>(analysis.classes.size()), "class: a loop nest", "classes, each a loop nest"));
  constexpr std::size_t most = 16;
  for (std::size_t k = 0; k < std::min(most, analysis.classes.size()); ++k) {
    const poly::AnalysedClass& one = analysis.classes[k];
    text += fmt::format("    {}: {}", one.element,
        one.taps ? fmt::format("{} an element", plural(static_cast<double>(*one.taps), "point", "points"))
                 : "as many points as the bounds leave");
    if (!one.tap_list.empty()) {
      std::vector<std::string> taps;
      for (const std::string& tap : one.tap_list)
        taps.push_back(one.tap_list.size() > 1 ? fmt::format("({})", tap) : tap);
      text += fmt::format(", taps {}", list(taps, 9));
    }
    text += fmt::format("; {} in all\n", grouped(one.points));
  }
  if (analysis.classes.size() > most) text += fmt::format("    … and {} more\n", analysis.classes.size() - most);
  return text;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.4g} %", whole == 0 ? 100.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// `steps`: of a scan, which adds each point to the sum before it or takes each factor out of the product of all.
std::string explain_points(const poly::Analysis& analysis, std::optional<std::int64_t> steps, bool all_but_one) {
  if (steps && all_but_one)
    return fmt::format("  points: {} valid; {} divisions, one for each element, of the product of all factors\n",
        grouped(analysis.valid), grouped(steps));
  if (steps)
    return fmt::format("  points: {} valid; as a scan {} steps, one from each element to the next\n",
        grouped(analysis.valid), grouped(steps));
  std::string text =
      fmt::format("  points: {} valid, {} executed", grouped(analysis.valid), grouped(analysis.executed));
  if (analysis.valid && analysis.executed)
    text += fmt::format(", {} useful", percent(*analysis.valid, *analysis.executed));
  if (analysis.valid && analysis.box && *analysis.box != *analysis.valid)
    text += fmt::format(
        " (of a box that tests each point: {} of {})", percent(*analysis.valid, *analysis.box), grouped(analysis.box));
  std::set<std::string> guards;
  for (const poly::AnalysedClass& one : analysis.classes) guards.insert(one.guards.begin(), one.guards.end());
  text += guards.empty()
      ? "\n  guards: none\n"
      : fmt::format(
            "\n  guards: none in the innermost loop; {} cut in the bounds of loops, borders are loops of their own\n",
            list({guards.begin(), guards.end()}, 4));
  for (const std::string& note : analysis.notes) text += fmt::format("  {}\n", note);
  return text;
}

// ---- work -----------------------------------------------------------------------------------------------------------

int operations(const poly::Expr& value) {
  return value.match([](const poly::Apply& apply) {
                       int count = 1;
                       for (const poly::Expr& e : apply.operands) count += operations(e);
                       return count;
                     },
                     [](const poly::Cast& cast) { return operations(cast.operand); }, [](const auto&) { return 0; });
}

// Operations a byte at which arithmetic and memory take equally long. On a core: multiply-adds on full vectors against
// bytes from memory.
double balance(const Target& target) {
  return has_threads(target) ? model::threads::balance
                             : target.vector_bytes / 4.0 * 2 * model::pipes / model::memory_bytes;
}

std::string explain_work(
    const Program& program, const Statement& statement, std::optional<std::int64_t> points, const Target& target) {
  std::set<TensorId> touched{statement.target.tensor};
  for (const poly::Access& read : statement.reads) touched.insert(read.tensor);
  double bytes = 0;
  for (const TensorId id : touched) bytes += bytes_of(program, id);
  if (!points) return fmt::format("  work: {} that must move at least\n", scaled(bytes, "B"));
  const double flops = static_cast<double>(*points) *
      (operations(statement.value) + (statement.aggregation == Aggregation::Assign ? 0 : 1));
  const double intensity = bytes > 0 ? flops / bytes : 0;
  std::string text = fmt::format("  work: {}, {} that must move at least, {:.3g} operations a byte",
      scaled(flops, " operations"), scaled(bytes, "B"), intensity);
  if (target.family == Target::Family::Reference) return text + "\n";
  text += fmt::format(": on its own it is bound by {} (they balance at about {:.3g} here)",
      intensity < balance(target) ? "memory" : "arithmetic", balance(target));
  if (!has_threads(target) && intensity < balance(target) && bytes < static_cast<double>(target.l2))
    text += "; all of it fits the second-level cache";
  return text + "\n";
}

// What a statement of the plan visits: of a scan a step for each element.
std::optional<std::int64_t> executed(const Program& program, const Statement& statement) {
  if (scan_of(statement)) return static_cast<std::int64_t>(elements(program, statement.target.tensor));
  return poly::analyse(program, statement).executed;
}

// Statements that the plan has in the place of one: those that were added for it, in order, and its own last.
using Rewritten = std::map<std::string, std::vector<const Statement*>>;
Rewritten rewritten(const Program& before, const Program& after) {
  const std::set<std::string> written = written_by(before);
  std::map<TensorId, std::set<std::size_t>> behind;    // of a tensor that was added: what it is made of
  Rewritten found;
  for (std::size_t n = 0; n < after.nodes.size(); ++n) {
    const auto* statement = std::get_if<Statement>(&after.nodes[n]);
    if (!statement) continue;
    std::set<std::size_t> own{n};
    for (const poly::Access& read : statement->reads)
      if (const auto made = behind.find(read.tensor); made != behind.end())
        own.insert(made->second.begin(), made->second.end());
    const std::string name = target_name(after, after.nodes[n]);
    // read in a better order
    const bool copies = statement->aggregation == poly::Aggregation::Assign && statement->value.as<poly::Read>();
    if (written.contains(name) ? own.size() < 2 : copies) continue;
    if (!written.contains(name)) behind.emplace(statement->target.tensor, std::move(own));
    else
      for (const std::size_t node : own) found[name].push_back(&std::get<Statement>(after.nodes[node]));
  }
  return found;
}

// The points of a statement that the plan computes in another way, and how.
std::string explain_rewritten(const Program& plan, const std::vector<const Statement*>& statements,
    const poly::Analysis& analysis, const Target& target) {
  std::string text = fmt::format(
      "  points: {} as written; as computed, in {} statements:\n", grouped(analysis.valid), statements.size());
  for (const Statement* statement : statements) {
    const auto points = executed(plan, *statement);
    text += fmt::format("    {}\n      {} {}\n    {}", text_of(plan, *statement), grouped(points),
        scan_of(*statement) ? "steps of a scan" : "points", explain_work(plan, *statement, points, target));
  }
  return text;
}

std::string explain_statement(const Program& program, const Statement& statement, const Plan* plan,
    const Rewritten& rewritten, const Target& target) {
  const poly::Analysis analysis = poly::analyse(program, statement);
  const std::string what =
      text_of(program, statement) + "\n" + explain_parts(statement, analysis) + explain_classes(analysis);
  if (const auto others = rewritten.find(program.tensor(statement.target.tensor).name);
      plan && others != rewritten.end())
    return what + explain_rewritten(plan->program, others->second, analysis, target);
  const auto scan = scan_of(statement);
  const auto steps = scan ? executed(program, statement) : std::nullopt;
  return what + explain_points(analysis, steps, scan && scan->all_but_one) +
      explain_work(program, statement, steps ? steps : analysis.valid, target);
}

// ---- the plan -------------------------------------------------------------------------------------------------------

std::string cycles(double count) { return fmt::format("{} cycles", grouped(std::round(count))); }

std::string explain_lanes(const Compute& leaf, const Why::Leaf& why) {
  if (why.lanes.size() < 2) return {};
  std::vector<std::string> others;
  double own = 0;
  for (const Weighed& one : why.lanes) {
    if (one.n == leaf.n) own = one.cycles;
    else others.push_back(fmt::format("over {} {}", one.n, cycles(one.cycles)));
  }
  return fmt::format(
      "       why: lanes over {} take {} in the model before blocking; {}\n", leaf.n, cycles(own), list(others, 3));
}

std::string explain_blocks(const Compute& leaf, const Why::Leaf& why) {
  if (why.blocks.size() < 2) return {};
  std::vector<std::string> others;
  double own = std::numeric_limits<double>::infinity();
  for (const Weighed& one : why.blocks) {
    if (one.n != leaf.n) continue;
    if (one.m == leaf.m()) own = std::min(own, one.cycles);
    else
      others.push_back(fmt::format("{} {}",
          one.m.empty() ? "without rows"
                        : fmt::format("{} of {} by {}", plural(static_cast<double>(one.rows), "row", "rows"), one.m,
                              plural(static_cast<double>(one.vectors), "vector", "vectors")),
          cycles(one.cycles)));
  }
  if (own == std::numeric_limits<double>::infinity() || others.empty()) return {};
  return fmt::format("       why: the block takes {}; {}\n", cycles(own), list(others, 3));
}

std::string block_of(const Compute& leaf) {
  const std::string columns = leaf.vectors > 1 || leaf.rows == 1
      ? fmt::format(
            "{} of {}", plural(static_cast<double>(leaf.vectors), "vector", "vectors"), leaf.n.empty() ? "one" : leaf.n)
      : leaf.n;
  return leaf.m().empty()
      ? columns
      : fmt::format("{} of {} by {}", plural(static_cast<double>(leaf.rows), "row", "rows"),
            fmt::join(leaf.all_of_m(), " and "), columns);
}

// How a leaf of each form runs. `side`: its lanes in words.
std::string steps_of(const Compute& leaf) {
  return fmt::format("{}{}", fmt::join(leaf.k, ", "), leaf.across() ? " as one" : "");
}

std::string explain_form(const Compute& leaf, const std::string& side) {
  if (leaf.is<forms::Fill>()) return fmt::format("its fill into every element first, {}", side);
  if (leaf.is<forms::Map>()) return fmt::format("element by element, {}, in blocks of {}", side, block_of(leaf));
  if (leaf.is<forms::Reduce>())
    return fmt::format("{}, {} at a time, folded into one at the end of each {}", side,
        plural(static_cast<double>(leaf.vectors), "vector", "vectors"),
        leaf.m().empty() ? "element"
                         : fmt::format("block of {} of {}, which have what they read alike in common",
                               plural(static_cast<double>(leaf.rows), "row", "rows"), leaf.m()));
  if (const auto* scan = leaf.as<forms::Scan>())
    return fmt::format("a scan: each element along {} goes on from the one before, {}", scan->along, side);
  if (leaf.is<forms::Finish>()) return "each element by the thread that has its sum, before anything is written";
  if (leaf.is<forms::Gather>()) return fmt::format("rows are copied from where the index says, {}", side);
  if (leaf.is<forms::Scatter>())
    return "rows are added to where the index says, in the order of the index: the same result each time, no atomics";
  if (leaf.is<forms::Sort>()) return "positions sorted, a row at a time";
  if (const auto* online = leaf.as<forms::Online>()) {
    if (!online->instruction.empty() && !leaf.k.empty()) {
      const MatrixInstruction& i = *matrix_instruction(online->instruction);
      return fmt::format(
          "in a pass, {} at a time: a warp has {} by {} of {} and {} on tensor cores, what they multiply is copied a turn ahead",
          online->depth, leaf.rows * i.m, leaf.vectors * i.n, leaf.m(), leaf.n);
    }
    const std::string box = leaf.rows * leaf.vectors > 1
        ? fmt::format("a thread has {} by {} of {} and {}", leaf.rows, leaf.vectors, leaf.m(), leaf.n)
        : fmt::format("{} have a row {}", plural(static_cast<double>(leaf.lanes), "thread", "threads"), leaf.m());
    return fmt::format("in a pass, {} at a time: {}", online->depth, box);
  }
  if (const auto* cores = leaf.as<forms::TensorCores>()) {
    const MatrixInstruction& i = *matrix_instruction(cores->instruction);
    return fmt::format(
        "tiles of {} by {} outputs of {} and {} a block, on tensor cores; {} steps of {} at a time through shared memory, copied {} turns ahead",
        leaf.rows * i.m * cores->warps_m, leaf.vectors * i.n * cores->warps_n, fmt::join(leaf.all_of_m(), ", "),
        fmt::join(leaf.all_of_n(), ", "), cores->depth, steps_of(leaf), cores->ahead());
  }
  if (const auto* staged = leaf.as<forms::Staged>())
    return fmt::format(
        "a thread has {} by {} outputs of {} and {}, {} threads lie side by side over {}; {} steps of {} at a time go through shared memory, the next ones on their way meanwhile",
        leaf.rows, leaf.vectors, fmt::join(leaf.all_of_m(), ", "), fmt::join(leaf.all_of_n(), ", "), leaf.lanes,
        fmt::join(leaf.all_of_n(), ", "), staged->depth, steps_of(leaf));
  return fmt::format("{}; sums of a block of {} stay in registers while {} runs", side, block_of(leaf),
      leaf.k.empty() ? "the fold" : fmt::format("{}", fmt::join(leaf.k, ", ")));
}

std::string explain_leaf(const Plan& plan, const Compute& leaf, const Why::Leaf& why, bool threads) {
  const std::string name = target_name(plan.program, plan.program.nodes[static_cast<std::size_t>(leaf.node)]);
  const std::string side = leaf.lanes > 1
      ? fmt::format("{} {} side by side over {}", leaf.lanes, threads ? "threads" : "lanes", leaf.n)
      : "one element at a time";
  std::string text = fmt::format("     {}: {}", name, explain_form(leaf, side));
  if (!leaf.outer.empty()) text += fmt::format("; around it {}", fmt::join(leaf.outer, ", "));
  const auto* contract = leaf.as<forms::Contract>();
  if (contract && contract->chunk > 0)
    text += fmt::format(
        "; {} of {} at a time, added up in the target: what lanes read stays in cache, and a long sum stays exact",
        contract->chunk, leaf.k.front());
  if (contract && contract->taps > 0)
    text += fmt::format("; values of {} that bound a block one at a time, added up in the target: its bounds are exact",
        fmt::join(std::vector(leaf.k.begin(), leaf.k.begin() + contract->taps), ", "));
  if (leaf.block() && leaf.block()->turned)
    text += fmt::format("; what lies side by side along {} is read or written so, and transposed in {}", leaf.m(),
        threads ? "shared memory" : "registers");
  for (const Ahead& one : leaf.ahead)
    text += fmt::format("; lines of memory are asked for {} of {} before they are needed", one.count, one.index);
  if (leaf.block() && leaf.block()->claims) text += "; lines of the result are asked for before a block computes them";
  if (leaf.streams()) text += "; stored past the cache, as nobody reads it here";
  if (why.predicted > 0)
    return text +
        fmt::format("\n       why: predicted to take {:.3g} ms; the leaf that costs least by counts, {:.3g} ms\n",
            why.predicted, why.by_counts);
  return text + "\n" + explain_lanes(leaf, why) + explain_blocks(leaf, why);
}

std::string explain_loops(const Group& group, const Why& why, bool threads) {
  if (!group.tile.empty()) {
    std::vector<std::string> boxes;
    for (const Loop& loop : group.tile) boxes.push_back(fmt::format("{} {}", loop.step, loop.index));
    return fmt::format(
        "     a box of {} at a time; boxes that differ in what is reduced follow one another, the others are turns, in parallel\n",
        fmt::join(boxes, ", "));
  }
  if (group.loops.empty())
    return threads ? fmt::format("     blocks of {} threads\n", group.threads)
                   : "     one turn, on one core: too little work to share\n";
  std::vector<std::string> loops;
  double turns = 1;
  for (std::size_t k = 0; k < group.loops.size(); ++k) {
    const Loop& loop = group.loops[k];
    loops.push_back(loop.step == 1 ? loop.index
            : loop.walk            ? fmt::format("{} by {}, {} at a time", loop.index, loop.step, loop.walk)
                                   : fmt::format("{} by {}", loop.index, loop.step));
    const std::int64_t count = k < why.extents.size() ? (why.extents[k] + loop.step - 1) / loop.step : 1;
    turns *= static_cast<double>(count);
  }
  const std::string what = threads ? fmt::format("blocks of {} threads", group.threads)
      : turns == 1                 ? "turn"
                                   : "turns, in parallel";
  return fmt::format("     {} {}: one for each {}\n", grouped(turns), what, fmt::join(loops, ", "));
}

std::string explain_bytes(const model::Bytes& bytes, bool timed) {
  std::string text = fmt::format("{} must move", scaled(bytes.must, "B"));
  if (timed)
    text += fmt::format("; what moves: memory {}, last cache {}, second cache {}", scaled(bytes.memory, "B"),
        scaled(bytes.last, "B"), scaled(bytes.second, "B"));
  return text;
}

std::string time_of(double ms) {
  return ms < 1e-3 ? fmt::format("{:.3g} ns", ms * 1e6)
      : ms < 0.1   ? fmt::format("{:.3g} us", ms * 1e3)
                   : fmt::format("{:.3g} ms", ms);
}

std::string explain_prediction(const model::Prediction& one, const Target& target) {
  if (!model::predicts_time(target)) return explain_bytes(one.bytes, false) + "\n";
  return fmt::format("{} on one core, {} if all data were in its first-level cache; {}\n", time_of(one.milliseconds),
      time_of(one.core), explain_bytes(one.bytes, true));
}

// Of each group, the first one of its launch.
std::vector<std::size_t> launches_of(const Plan& plan, const Strides& strides, const Target& target) {
  std::vector<std::size_t> first(plan.groups.size());
  std::iota(first.begin(), first.end(), std::size_t{0});
  if (!has_threads(target)) return first;
  for (const Step& step : launches(plan, strides, target).steps)
    for (const std::size_t group : step.groups) first[group] = step.groups[0];
  return first;
}

// `with`: the number of the group in whose launch this one is, or its own.
std::string explain_group(const Plan& plan, std::size_t k, std::size_t with, const model::Prediction& prediction,
    const Target& target) {
  const bool threads = has_threads(target);
  const Group& group = plan.groups[k];
  const Why& why = plan.why.at(k);
  std::vector<std::string> names, locals, kept;
  for (const Compute& leaf : group.body)
    names.push_back(target_name(plan.program, plan.program.nodes[static_cast<std::size_t>(leaf.node)]));
  for (const TensorId id : group.locals) locals.push_back(plan.program.tensor(id).name);
  for (const TensorId id : group.kept) kept.push_back(plan.program.tensor(id).name);
  std::string text = fmt::format("  {}. {}{}\n", k + 1, fmt::join(names, ", "),
      with != k                                  ? fmt::format(": in the launch of {}.", with + 1)
          : names.size() > 1                     ? ": one launch"
          : group.body.front().is<forms::Fill>() ? ": fill"
                                                 : "");
  text += explain_loops(group, why, threads);
  text += "     predicted: " + explain_prediction(prediction, target);
  if (!locals.empty())
    text += fmt::format("     {} {}\n", fmt::join(locals, ", "),
        finishes(group) ? "stay in registers and are in no memory"
                        : "of a turn stay in cache and are never in memory as a whole");
  if (!kept.empty())
    text +=
        fmt::format("     {} of a turn are added up in shared memory and written behind it\n", fmt::join(kept, ", "));
  for (std::size_t l = 0; l < group.body.size(); ++l)
    text += explain_leaf(plan, group.body[l], l < why.leaves.size() ? why.leaves[l] : Why::Leaf{}, threads);
  return text;
}

std::string explain_plan(const Stages& stages, const Target& target) {
  const Plan& plan = *stages.plan;
  const model::PlanPrediction predicted = model::predict(plan, stages.strides, target);
  const std::vector<std::size_t> with = launches_of(plan, stages.strides, target);
  const auto launches = static_cast<double>(std::set(with.begin(), with.end()).size());
  std::string text = fmt::format("plan for {}: {}\n", target.name, plural(launches, "launch", "launches"));
  const std::set<std::string> before = written_by(*stages.reduced);
  for (const Directive& directive : plan.directives)
    text += fmt::format("  {}\n    {}\n", print(directive), reason(directive, *stages.reduced, plan));
  for (const poly::Node& node : plan.program.nodes)
    if (const auto* statement = std::get_if<Statement>(&node);
        statement && !before.contains(target_name(plan.program, node)))
      text += fmt::format("  added, to read or fold in a better order: {}\n", text_of(plan.program, *statement));
  for (std::size_t k = 0; k < plan.groups.size(); ++k)
    text += explain_group(plan, k, with[k], predicted.groups[k], target);
  return text + "  in all: " + explain_prediction(predicted.sum, target);
}

}  // namespace

std::string explain(const Stages& stages, const Target& target) {
  std::string text;
  const Program& program = *stages.bounded;
  const Rewritten others = stages.plan ? rewritten(*stages.reduced, stages.plan->program) : Rewritten{};
  for (const poly::Node& node : program.nodes) {
    if (const auto* statement = std::get_if<Statement>(&node))
      text += explain_statement(program, *statement, stages.plan ? &*stages.plan : nullptr, others, target);
    else text += fmt::format("{}: not a contraction; computed as it is defined\n", target_name(program, node));
    text += "\n";
  }
  return stages.plan ? text + explain_plan(stages, target) : text;
}

}  // namespace tilec::codegen
