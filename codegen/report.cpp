// Columns are as wide as their widest cell; numbers stand right, words left. Every number is a count of the bound
// Program: points of the domain times operations of the value, bytes of whole tensors. `<=` marks the few that were too
// many to count exactly.
#include "codegen/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "autodiff/graph.h"
#include "codegen/figures.h"
#include "poly/count.h"

namespace tilec::codegen {

namespace {

using autodiff::Residual;
using autodiff::Split;
using autodiff::Way;
using autodiff::targets;
using poly::Node;
using poly::Program;
using poly::Statement;
using poly::TensorId;

struct Table {
  std::vector<std::vector<std::string>> rows;          // the first one is the heading
  std::vector<bool> right;                             // per column
};

std::string print(const Table& table) {
  std::vector<std::size_t> width(table.right.size(), 0);
  for (const auto& row : table.rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (const auto& row : table.rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line +=
          "  " + (table.right[c] ? fmt::format("{:>{}}", row[c], width[c]) : fmt::format("{:<{}}", row[c], width[c]));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// Each tensor once, whole.
std::int64_t bytes_read(const Program& program, const Node& node) {
  const auto operands = autodiff::operands(node);
  std::int64_t sum = 0;
  for (const TensorId id : std::set<TensorId>(operands.begin(), operands.end())) sum += poly::bytes(program.tensor(id));
  return sum;
}

std::int64_t bytes_written(const Program& program, const Node& node) {
  std::int64_t sum = 0;
  for (const TensorId id : targets(node)) sum += poly::bytes(program.tensor(id));
  return sum;
}

// Where each tensor of the joint Program is made.
class Makers {
 public:
  explicit Makers(const Split& split) {
    for (const Node& node : split.forward.nodes)
      for (const TensorId id : targets(node)) forward_.insert(split.forward.tensor(id).name);
    for (const Node& node : split.backward.nodes)
      for (const TensorId id : targets(node)) backward_.insert(split.backward.tensor(id).name);
  }
  std::string operator()(const std::string& name) const {
    static const char* const words[] = {"", "forward", "gradient", "both"};
    return words[forward_.count(name) + 2 * backward_.count(name)];
  }

 private:
  std::set<std::string> forward_, backward_;
};

std::string statement_table(const Program& program, const Split* split) {
  Table table{{{"tensor"}}, {false}};
  if (split != nullptr) table.rows[0].push_back("made in"), table.right.push_back(false);
  const auto makers = split != nullptr ? std::optional<Makers>(*split) : std::nullopt;
  for (const char* head : {"points", "flop", "bytes read", "bytes written"})
    table.rows[0].push_back(head), table.right.push_back(true);
  for (const Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    const auto name = program.tensor(targets(node)[0]).name;
    const auto counted = poly::operations(program, node);
    const auto points = s ? poly::points(*s) : std::nullopt;
    table.rows.push_back({name});
    auto& row = table.rows.back();
    if (makers) row.push_back((*makers)(name));
    row.push_back(points ? grouped(*points) : s ? "not counted" : "");
    row.push_back((counted.exact ? "" : "<= ") + grouped(counted.count));
    row.push_back(grouped(bytes_read(program, node)));
    row.push_back(grouped(bytes_written(program, node)));
  }
  return print(table);
}

std::string why(const Residual& r) {
  if (r.way == Way::Input) return "an input of the forward";
  if (r.asked == poly::Keep::Save && r.way == Way::Saved) return "[[save]]";
  if (r.asked == poly::Keep::Recompute) return "[[recompute]]";
  if (r.way == Way::Output) return "an output of the forward";
  const bool cheaper = r.cost_recomputed < r.cost_saved;
  if (r.way == Way::Recomputed && !cheaper)
    return fmt::format("what needs it is recomputed too: {} operations to make it, {} to keep it",
        grouped(r.cost_recomputed), grouped(r.cost_saved));
  if (r.way == Way::Saved && cheaper)
    return fmt::format("its operands would have to be kept: {} operations to make it, {} to keep it",
        grouped(r.cost_recomputed), grouped(r.cost_saved));
  return fmt::format("{} operations to make it, {} to keep it", grouped(r.cost_recomputed), grouped(r.cost_saved));
}

std::string residual_table(const Split& split) {
  Table table{{{"tensor", "way", "bytes", "why"}}, {false, false, true, false}};
  for (const KeptRow& row : kept_rows(split)) table.rows.push_back({row.tensor, row.way, grouped(row.bytes), row.why});
  return print(table);
}

std::int64_t scratch(const Lowered& package) {
  std::int64_t sum = 0;
  for (const Buffer& buffer : package.buffers)
    if (buffer.role == Buffer::Role::Scratch) sum += buffer.count() * lang::bytes(buffer.dtype);
  return sum;
}

std::string sums(const Split& split) {
  Table table{{{"program", "statements", "flop", "bytes read", "bytes written"}}, {false, true, true, true, true}};
  const auto add = [&](const char* name, const Program& program) {
    const Totals sum = totals(program);
    table.rows.push_back(
        {name, grouped(std::ssize(program.nodes)), grouped(sum.operations), grouped(sum.read), grouped(sum.written)});
  };
  add("forward", split.forward);
  add("backward", split.backward);
  add("both in one", split.joint);
  return print(table);
}

std::int64_t bytes_of(const Split& split, Way way) {
  std::int64_t sum = 0;
  for (const Residual& r : split.residuals) sum += r.way == way ? r.bytes : 0;
  return sum;
}

}  // namespace

Totals totals(const Program& program) {
  Totals sum;
  for (const Node& node : program.nodes) {
    const poly::Operations counted = poly::operations(program, node);
    sum.operations += counted.count;
    sum.exact = sum.exact && counted.exact;
    sum.read += bytes_read(program, node);
    sum.written += bytes_written(program, node);
  }
  return sum;
}

std::vector<KeptRow> kept_rows(const Split& split) {
  static const char* const ways[] = {"input", "output", "saved", "recomputed"};
  std::vector<KeptRow> rows;
  for (const Residual& r : split.residuals)
    rows.push_back({split.joint.tensor(r.tensor).name, ways[static_cast<int>(r.way)], why(r), r.bytes});
  return rows;
}

std::string report(const Stages& stages) {
  const Split* split = stages.split ? &*stages.split : nullptr;
  const Program& program = split != nullptr ? split->joint : *stages.bounded;
  std::string text = "statements\n" + statement_table(program, split);
  if (split == nullptr) {
    const Totals sum = totals(program);
    text += fmt::format("\ntotal: {} flop, {} bytes read, {} bytes written\n", grouped(sum.operations),
        grouped(sum.read), grouped(sum.written));
  } else {
    text +=
        "\nwhat backward has of the forward (an operation costs 1, a division or a function 8, a byte that crosses 5)\n" +
        residual_table(*split);
    text += "\nprograms\n" + sums(*split);
    text += fmt::format("\nresiduals: {} bytes saved, {} bytes recomputed\n", grouped(bytes_of(*split, Way::Saved)),
        grouped(bytes_of(*split, Way::Recomputed)));
  }
  if (stages.lowered)
    text += fmt::format("scratch{}: {} bytes on {}\n", split != nullptr ? " of the gradient program" : "",
        grouped(scratch(*stages.lowered)), stages.lowered->target);
  return text;
}

}  // namespace tilec::codegen
