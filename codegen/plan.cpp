// Plans as text and back, and what must hold of one.
#include "codegen/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "lang/diagnostic.h"

namespace tilec::codegen {

Plan::Plan() = default;
Plan::Plan(const Plan&) = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(const Plan&) = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

namespace {

using lang::InternalError;

constexpr std::pair<LeafForm, const char*> form_names[] = {
    {LeafForm::Contract, "contract"}, {LeafForm::Map, "map"}, {LeafForm::Reduce, "reduce"}, {LeafForm::Scan, "scan"}, {LeafForm::Fill, "fill"},
    {LeafForm::Gather, "gather"},     {LeafForm::Scatter, "scatter"}, {LeafForm::Sort, "sort"}};

TensorId target_of(const poly::Program& program, int node) {
  const poly::Node& n = program.nodes.at(static_cast<std::size_t>(node));
  if (const auto* s = std::get_if<poly::Statement>(&n)) return s->target.tensor;
  return std::get<poly::Intrinsic>(n).targets.front();
}

std::string print(const poly::Program& program, const Compute& leaf) {
  std::string line;
  for (const auto& [form, text] : form_names) if (form == leaf.form) line = text;
  line += " " + program.tensor(target_of(program, leaf.node)).name;
  if (!leaf.outer.empty()) line += fmt::format("  over {}", fmt::join(leaf.outer, " "));
  if (!leaf.along.empty()) line += "  along " + leaf.along;
  if (!leaf.m.empty()) line += "  m " + leaf.m;
  if (!leaf.n.empty()) line += "  n " + leaf.n;
  if (!leaf.k.empty()) line += fmt::format("  k {}", fmt::join(leaf.k, " "));
  line += fmt::format("  block {}x{}  lanes {}", leaf.rows, leaf.vectors, leaf.lanes);
  if (leaf.chunk) line += fmt::format("  chunk {}", leaf.chunk);
  if (leaf.taps) line += fmt::format("  taps {}", leaf.taps);
  if (leaf.depth) line += fmt::format("  stage {}", leaf.depth);
  if (leaf.turned) line += "  turned";
  if (leaf.stream) line += "  streamed";
  if (!leaf.m_inner) line += "  rows outside";
  return line;
}

// A line as words; parts are two blanks apart, so that `over j k  n i` is a list of two, whatever the indices are called.
struct Words {
  std::vector<std::string> all;
  std::vector<bool> first;                             // of its part
  std::size_t at = 0;
  bool more() const { return at < all.size(); }
  std::string next() { return more() ? all[at++] : std::string(); }
  std::vector<std::string> list() {
    std::vector<std::string> found;
    while (more() && !first[at]) found.push_back(next());
    return found;
  }
};

Words words(const std::string& line) {
  Words w;
  for (std::size_t end = 0, begin = line.find_first_not_of(" \t\r"); begin != std::string::npos; begin = line.find_first_not_of(" \t\r", end)) {
    w.first.push_back(begin != end + 1);
    end = std::min(line.find_first_of(" \t\r", begin), line.size());
    w.all.push_back(line.substr(begin, end - begin));
  }
  return w;
}

std::optional<std::int64_t> number(std::string text) {
  if (!text.empty() && text.back() == ',') text.pop_back();
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoll(text);
}

int node_of(const poly::Program& program, const std::string& tensor) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    if (program.tensor(target_of(program, static_cast<int>(n))).name == tensor) return static_cast<int>(n);
  return -1;
}

std::optional<Compute> parse_leaf(Words w, const poly::Program& program, std::string& message) {
  Compute leaf;
  const std::string form = w.next(), tensor = w.next();
  const auto known = std::find_if(std::begin(form_names), std::end(form_names), [&](const auto& f) { return form == f.second; });
  if (known == std::end(form_names)) { message = "`" + form + "` is no form of a leaf: contract, map, reduce, scan, fill, gather, scatter or sort"; return std::nullopt; }
  leaf.form = known->first;
  leaf.node = node_of(program, tensor);
  if (leaf.node < 0) { message = "no statement computes `" + tensor + "`"; return std::nullopt; }
  while (w.more()) {
    const std::string key = w.next();
    if (key == "over") leaf.outer = w.list();
    else if (key == "along") leaf.along = w.next();
    else if (key == "m") leaf.m = w.next();
    else if (key == "n") leaf.n = w.next();
    else if (key == "k") leaf.k = w.list();
    else if (key == "rows") { leaf.m_inner = false; w.next(); }
    else if (key == "turned") leaf.turned = true;
    else if (key == "streamed") leaf.stream = true;
    else if (key == "block") {
      const std::string block = w.next();
      const std::size_t x = block.find('x');
      const auto rows = number(block.substr(0, x)), vectors = number(x == std::string::npos ? "" : block.substr(x + 1));
      if (!rows || !vectors || !*rows || !*vectors) { message = "`block " + block + "` is not ROWSxVECTORS"; return std::nullopt; }
      leaf.rows = *rows, leaf.vectors = *vectors;
    } else if (key == "lanes" || key == "stage" || key == "chunk" || key == "taps") {
      const auto value = number(w.next());
      if (!value || !*value) { message = "`" + key + "` wants a number"; return std::nullopt; }
      (key == "lanes" ? leaf.lanes : key == "stage" ? leaf.depth : key == "taps" ? leaf.taps : leaf.chunk) = *value;
    } else {
      message = "`" + key + "` is no part of a leaf";
      return std::nullopt;
    }
  }
  return leaf;
}

std::optional<std::vector<Loop>> parse_loops(Words w, std::string& message) {
  std::vector<Loop> loops;
  w.next();
  while (w.more()) {
    Loop loop{w.next(), 1};
    if (w.next() != "by") { message = "a loop is `INDEX by STEP`"; return std::nullopt; }
    const auto step = number(w.next());
    if (!step || !*step) { message = "the step of `" + loop.index + "` is no number above 0"; return std::nullopt; }
    loop.step = *step;
    loops.push_back(loop);
  }
  return loops;
}

// The leaf of an Intrinsic has its form and stands alone; a Reshape is a map of its elements.
void verify(const poly::Program& program, const poly::Intrinsic& intrinsic, const Group& group, const Compute& leaf) {
  const std::string& name = program.tensor(intrinsic.targets.front()).name;
  if (leaf.form != form_of(intrinsic.op)) throw InternalError("plan: the leaf of `" + name + "` has another form than what makes it");
  if (intrinsic.op == poly::IntrinsicOp::Reshape) return;
  if (group.body.size() != 1 || !group.loops.empty()) throw InternalError("plan: `" + name + "` does not stand alone in its group");
  if (leaf.rows < 1 || leaf.vectors < 1 || leaf.lanes < 1) throw InternalError("plan: the leaf of `" + name + "` has a block of nothing");
}

}  // namespace

LeafForm form_of(poly::IntrinsicOp op) {
  switch (op) {
    case poly::IntrinsicOp::Reshape: return LeafForm::Map;
    case poly::IntrinsicOp::Gather: return LeafForm::Gather;
    case poly::IntrinsicOp::Scatter: return LeafForm::Scatter;
    case poly::IntrinsicOp::Sort: return LeafForm::Sort;
  }
  return LeafForm::Map;
}

std::string print(const Plan& plan) {
  std::string text;
  for (const Group& group : plan.groups) {
    text += "group " + group.name;
    if (!group.locals.empty()) {
      text += "  local";
      for (const TensorId id : group.locals) text += " " + plan.program.tensor(id).name;
    }
    if (group.threads) text += fmt::format("  threads {}", group.threads);
    text += "\n";
    std::string indent = "  ";
    if (!group.loops.empty()) {
      std::vector<std::string> loops;
      for (const Loop& loop : group.loops) loops.push_back(fmt::format("{} by {}", loop.index, loop.step));
      text += fmt::format("{}parallel {}\n", indent, fmt::join(loops, ", "));
      indent = "    ";
    }
    for (const Compute& leaf : group.body) text += indent + print(plan.program, leaf) + "\n";
  }
  return text;
}

std::optional<std::vector<Group>> parse_groups(const std::string& text, const poly::Program& program, std::string& message) {
  std::vector<Group> groups;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    Words w = words(line);
    if (!w.more()) continue;
    if (w.all[0] == "group") {
      Group group;
      w.next();
      group.name = w.next();
      if (w.more() && w.all[w.at] == "local") {
        w.next();
        while (w.more() && w.all[w.at] != "threads") {
          const int node = node_of(program, w.next());
          if (node < 0) { message = "no statement computes a local of group `" + group.name + "`"; return std::nullopt; }
          group.locals.push_back(target_of(program, node));
        }
      }
      if (w.more() && w.next() == "threads") group.threads = number(w.next()).value_or(0);
      groups.push_back(group);
      continue;
    }
    if (groups.empty()) { message = "a plan starts with `group NAME`"; return std::nullopt; }
    if (w.all[0] == "parallel") {
      const auto loops = parse_loops(w, message);
      if (!loops) return std::nullopt;
      groups.back().loops = *loops;
      continue;
    }
    const auto leaf = parse_leaf(w, program, message);
    if (!leaf) return std::nullopt;
    groups.back().body.push_back(*leaf);
  }
  return groups;
}

void verify(const Plan& plan, const Strides& strides) {
  std::map<int, int> leaves;
  for (const Group& group : plan.groups) {
    std::set<std::string> keep;
    if (group.body.size() > 1) for (const Loop& loop : group.loops) keep.insert(loop.index);
    for (const Compute& leaf : group.body) {
      const auto* s = std::get_if<poly::Statement>(&plan.program.nodes.at(static_cast<std::size_t>(leaf.node)));
      if (!s) verify(plan.program, std::get<poly::Intrinsic>(plan.program.nodes[static_cast<std::size_t>(leaf.node)]), group, leaf);
      if (leaf.form == LeafForm::Fill || !s) { leaves[leaf.node] += leaf.form != LeafForm::Fill; continue; }
      ++leaves[leaf.node];
      const Nest nest = nest_of(*s, strides, keep);
      std::set<std::string> walked;
      for (const Loop& loop : group.loops) if (loop.step == 1) walked.insert(loop.index);
      const auto walk = [&](const std::string& name) {
        if (name.empty()) return;
        if (!nest.dim(name) || !walked.insert(name).second) throw InternalError("plan: `" + name + "` is no dimension of its leaf, or is walked twice");
      };
      for (const auto& name : leaf.outer) walk(name);
      for (const auto& name : leaf.k) walk(name);
      walk(leaf.along);
      walk(leaf.m);
      walk(leaf.n);
      for (const Dim& dim : nest.dims) if (!walked.count(dim.name)) throw InternalError("plan: no loop walks `" + dim.name + "`");
    }
  }
  for (std::size_t n = 0; n < plan.program.nodes.size(); ++n)
    if (leaves[static_cast<int>(n)] != 1) throw InternalError("plan: a statement has not exactly one leaf");
}

std::vector<TensorId> buffers(const poly::Program& program) {
  std::vector<int> uses(program.tensors.size(), 0);
  for (const TensorId id : program.inputs) uses[static_cast<std::size_t>(id)] += 2;
  for (const TensorId id : program.outputs) uses[static_cast<std::size_t>(id)] += 2;
  for (const poly::Node& node : program.nodes) {
    if (const auto* s = std::get_if<poly::Statement>(&node)) {
      for (const poly::Access& read : s->reads) ++uses[static_cast<std::size_t>(read.tensor)];
      if (const auto* fill = std::get_if<TensorId>(&s->fill)) ++uses[static_cast<std::size_t>(*fill)];
    } else {
      for (const TensorId id : std::get<poly::Intrinsic>(node).operands) ++uses[static_cast<std::size_t>(id)];
    }
  }
  std::vector<TensorId> buffer(program.tensors.size());
  for (std::size_t t = 0; t < buffer.size(); ++t) buffer[t] = static_cast<TensorId>(t);
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    const auto* s = std::get_if<poly::Statement>(&program.nodes[n]);
    if (!s || !std::holds_alternative<TensorId>(s->fill)) continue;
    const TensorId from = std::get<TensorId>(s->fill);
    if (uses[static_cast<std::size_t>(from)] == 1) buffer[static_cast<std::size_t>(from)] = buffer[static_cast<std::size_t>(s->target.tensor)];
  }
  return buffer;
}

}  // namespace tilec::codegen
