// The groups of a plan as text, and back.
//
//   group C  threads 128
//     parallel i by 64
//       contract C  m i  n j  k k  block 6x4  lanes 16
#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "codegen/plan.h"

namespace tilec::codegen {

namespace {

std::string print(const poly::Program& program, const Compute& leaf) {
  std::string line = fmt::format("{} {}", word_of(leaf.form), program.tensor(target_of(program, leaf.node)).name);
  if (leaf.is<forms::Finish>()) return line;
  const auto number = [&](const char* key, std::int64_t value) {
    if (value) line += fmt::format("  {} {}", key, value);
  };
  if (!leaf.outer.empty()) line += fmt::format("  over {}", fmt::join(leaf.outer, " "));
  if (const auto* scan = leaf.as<forms::Scan>()) line += "  along " + scan->along;
  if (!leaf.m().empty()) line += fmt::format("  m {}", fmt::join(leaf.all_of_m(), " "));
  if (!leaf.n.empty()) line += fmt::format("  n {}", fmt::join(leaf.all_of_n(), " "));
  if (!leaf.k.empty()) line += fmt::format("  k {}", fmt::join(leaf.k, " "));
  line += fmt::format("  block {}x{}  lanes {}", leaf.rows, leaf.vectors, leaf.lanes);
  const auto* contract = leaf.as<forms::Contract>();
  if (contract) number("chunk", contract->chunk), number("taps", contract->taps);
  if (const auto* scatter = leaf.as<forms::Scatter>()) number("chunk", scatter->columns);
  if (const auto* sort = leaf.as<forms::Sort>()) number("chunk", sort->part);
  if (const auto* staged = leaf.as<forms::Staged>()) number("stage", staged->depth);
  if (const auto* online = leaf.as<forms::Online>()) {
    number("stage", online->depth);
    if (!online->instruction.empty()) line += "  mma " + online->instruction;
    if (online->twice) line += "  twice";
  }
  if (const auto* cores = leaf.as<forms::TensorCores>())
    line += fmt::format("  stage {}  mma {}  warps {}x{}  buffers {}", cores->depth, cores->instruction, cores->warps_m,
        cores->warps_n, cores->buffers);
  if (leaf.across()) line += "  across";
  if (leaf.block() && leaf.block()->turned) line += "  turned";
  if (leaf.streams()) line += "  streamed";
  if (leaf.block() && !leaf.block()->m_inner) line += "  rows outside";
  for (const Ahead& one : leaf.ahead) line += fmt::format("  ahead {} {}", one.count, one.index);
  if (leaf.block() && leaf.block()->claims) line += "  claimed";
  return line;
}

std::string list_of(const std::vector<Loop>& loops) {
  std::vector<std::string> parts;
  for (const Loop& loop : loops)
    parts.push_back(fmt::format("{} by {}{}", loop.index, loop.step, loop.walk ? fmt::format("/{}", loop.walk) : ""));
  return fmt::format("{}", fmt::join(parts, ", "));
}

int node_of(const poly::Program& program, const std::string& tensor) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    if (program.tensor(target_of(program, static_cast<int>(n))).name == tensor) return static_cast<int>(n);
  return -1;
}

// Reads a leaf, one part after the other. After the first fault it reads nothing.
class LeafReader {
 public:
  LeafReader(PlanLine line, const poly::Program& program) : line_(std::move(line)), program_(program) {}

  std::optional<GivenLeaf> read(PlanFault& fault) {
    form();
    node();
    while (!fault_ && line_.more()) part();
    if (leaf_.is<forms::Finish>() && (loops_ || block_)) unfit("a leaf that finishes sums has no parts");
    if (auto* online = leaf_.as<forms::Online>()) pass(*online);
    else if (depth_ || cores_) stage();
    else alone();
    if (!fault_) return GivenLeaf{leaf_, loops_, block_, line_.span(), misfit_};
    fault = *fault_;
    return std::nullopt;
  }

 private:
  void refuse(lang::Span span, std::string what) { if (!fault_) fault_ = {span, std::move(what)}; }

  // A part that is well said, of a leaf of another form.
  void unfit(std::string what) { if (misfit_.empty()) misfit_ = std::move(what); }

  void form() {
    const lang::Span span = line_.here();
    const std::string word = line_.next();
    const LeafForm all[] = {forms::Contract{}, forms::Map{}, forms::Reduce{}, forms::Scan{}, forms::Online{},
        forms::Finish{}, forms::Fill{}, forms::Gather{}, forms::Scatter{}, forms::Sort{}};
    const auto known =
        std::find_if(std::begin(all), std::end(all), [&](const LeafForm& form) { return word == word_of(form); });
    if (known == std::end(all))
      refuse(span,
          "`" + word +
              "` is no form of a leaf: contract, map, reduce, scan, online, finish, fill, gather, scatter or sort");
    else leaf_.form = *known;
  }

  void node() {
    const lang::Span span = line_.here();
    const std::string tensor = line_.next();
    leaf_.node = node_of(program_, tensor);
    if (leaf_.node < 0) refuse(span, "no statement computes `" + tensor + "`");
  }

  std::string one(const std::string& key) {
    if (!line_.more()) refuse(line_.span(), "`" + key + "` names no index");
    return line_.next();
  }

  void part() {
    const lang::Span span = line_.here();
    const bool begins = line_.begins_part();
    const std::string key = line_.next();
    if (!begins)
      return refuse(span, "`" + key + "` goes on the part in front of it: parts of a leaf stand two blanks apart");
    const bool loops = key == "over" || key == "along" || key == "m" || key == "n" || key == "k";
    (loops ? loops_ : block_) = true;
    if (key == "over") leaf_.outer = line_.list();
    else if (key == "along") along(one(key));
    else if (key == "m") rows_of();
    else if (key == "n") columns_of();
    else if (key == "k") leaf_.k = line_.list();
    else if (key == "rows" && line_.peek() == "outside") line_.next(), rows_outside();
    else if (key == "turned") turned();
    else if (key == "streamed") streamed();
    else if (key == "block") block();
    else if (key == "lanes") number(key, leaf_.lanes);
    else if (key == "stage") number(key, depth_);
    else if (key == "across") across_ = true;
    else if (key == "twice") twice();
    else if (key == "mma") cores().instruction = one(key);
    else if (key == "warps") pair(key, cores().warps_m, cores().warps_n);
    else if (key == "buffers") number(key, cores().buffers);
    else if (key == "chunk") chunk(key);
    else if (key == "taps") taps(key);
    else if (key == "ahead") ahead(key);
    else if (key == "claimed") claimed();
    else refuse(span, "`" + key + "` is no part of a leaf");
  }

  void block() { pair("block", leaf_.rows, leaf_.vectors); }

  void pair(const std::string& key, std::int64_t& rows, std::int64_t& columns) {
    const lang::Span span = line_.here();
    const std::string both = line_.next();
    const std::size_t x = both.find('x');
    const auto first = number_in(both.substr(0, x)),
               second = number_in(x == std::string::npos ? "" : both.substr(x + 1));
    if (!first || !second || !*first || !*second)
      return refuse(
          span, fmt::format("`{} {}` is not {}", key, both, key == "block" ? "ROWSxVECTORS" : "ROWSxCOLUMNS"));
    rows = *first, columns = *second;
  }

  forms::TensorCores& cores() {
    if (!cores_) cores_.emplace();
    return *cores_;
  }

  void along(const std::string& index) {
    if (auto* scan = leaf_.as<forms::Scan>()) scan->along = index;
    else unfit("`along` belongs to `scan`");
  }

  void rows_of() {
    outside_ = line_.list();
    if (outside_.empty()) return refuse(line_.span(), "`m` names no index");
    const std::string index = outside_.back();
    outside_.pop_back();
    if (!leaf_.set_m(index)) unfit(fmt::format("`{}` has no index `m`", word_of(leaf_.form)));
  }

  void columns_of() {
    outside_n_ = line_.list();
    if (outside_n_.empty()) return refuse(line_.span(), "`n` names no index");
    leaf_.n = outside_n_.back();
    outside_n_.pop_back();
  }

  void twice() {
    if (auto* online = leaf_.as<forms::Online>()) online->twice = true;
    else unfit("what goes over an index `twice` is `online`");
  }

  void rows_outside() {
    if (auto* block = leaf_.block()) block->m_inner = false;
    else unfit("`rows outside` are those of a block of `m` and `n` on a CPU");
  }

  void turned() {
    if (auto* block = leaf_.block()) block->turned = true;
    else unfit("a `turned` block has an `m` and an `n`, and no more rows than lanes");
  }

  void streamed() {
    if (!leaf_.set_streams())
      unfit(fmt::format(
          "only a result that a `map` or a `contract` writes once and nobody here reads is streamed, and this is a `{}`",
          word_of(leaf_.form)));
  }

  void chunk(const std::string& key) {
    std::int64_t none = 0;
    auto* contract = leaf_.as<forms::Contract>();
    auto* scatter = leaf_.as<forms::Scatter>();
    auto* sort = leaf_.as<forms::Sort>();
    number(key, contract ? contract->chunk : scatter ? scatter->columns : sort ? sort->part : none);
    if (none) unfit("`chunk` belongs to `contract`, `scatter` or `sort`");
  }

  void taps(const std::string& key) {
    std::int64_t none = 0;
    auto* contract = leaf_.as<forms::Contract>();
    number(key, contract ? contract->taps : none);
    if (none) unfit("`taps` are those of the sum of a `contract`");
  }

  void pass(forms::Online& online) {
    online.depth = depth_;
    if (cores_) online.instruction = cores_->instruction;
    if (!outside_.empty() || !outside_n_.empty() ||
        (cores_ && (cores_->warps_m > 1 || cores_->warps_n > 1 || cores_->buffers != 2)) || !leaf_.ahead.empty() ||
        across_)
      unfit("a leaf of a pass has one form only");
  }

  void alone() {
    if (!outside_n_.empty()) unfit("`n` is one index, unless the leaf is staged");
    else if (auto* own = leaf_.as<forms::Contract>()) own->outside = outside_;
    else if (!outside_.empty()) unfit("`m` is one index, unless the leaf is a `contract`");
    if (across_) unfit("stages go `across` reductions, and the leaf has none");
  }

  // A staged leaf is a contract that has nothing else.
  void stage() {
    forms::Contract plain;
    plain.m = leaf_.m();
    if (!leaf_.is<forms::Contract>()) unfit(fmt::format("`{}` belongs to `contract`", cores_ ? "mma" : "stage"));
    else if (*leaf_.as<forms::Contract>() != plain || !leaf_.ahead.empty()) unfit("a staged leaf has one form only");
    else if (cores_)
      cores_->m = plain.m, cores_->depth = depth_, cores_->outside = outside_, cores_->outside_n = outside_n_,
      cores_->across = across_, leaf_.form = *cores_;
    else leaf_.form = forms::Staged{plain.m, depth_, outside_, outside_n_, across_};
  }

  void ahead(const std::string& key) {
    Ahead one;
    number(key, one.count);
    one.index = this->one(key);
    leaf_.ahead.push_back(std::move(one));
    if (!leaf_.is<forms::Contract>() && !leaf_.is<forms::Reduce>() && !leaf_.is<forms::Map>())
      unfit("`ahead` belongs to a `map`, a `contract` or a `reduce` on a CPU");
  }

  void claimed() {
    if (auto* block = leaf_.block()) block->claims = true;
    else unfit("only the result of a `map` or a `contract` on a CPU is `claimed`");
  }

  void number(const std::string& key, std::int64_t& to) {
    const lang::Span span = line_.here();
    const auto value = number_in(line_.next());
    if (!value || !*value) return refuse(span, "`" + key + "` wants a number above 0, of at most 18 digits");
    to = *value;
  }

  PlanLine line_;
  const poly::Program& program_;
  Compute leaf_;
  bool loops_ = false, block_ = false;                 // something of them is said
  std::int64_t depth_ = 0;                             // of a staged leaf
  bool across_ = false;                                // likewise
  std::vector<std::string> outside_, outside_n_;                   // likewise
  std::optional<forms::TensorCores> cores_;
  std::string misfit_;
  std::optional<PlanFault> fault_;
};

std::optional<std::vector<Loop>> parse_loops(PlanLine line, PlanFault& fault) {
  std::vector<Loop> loops;
  line.next();
  while (line.more()) {
    Loop loop{line.next(), 1};
    const lang::Span span = line.here();
    if (line.next() != "by") {
      fault = {span, "a loop is `INDEX by STEP`"};
      return std::nullopt;
    }
    const lang::Span number = line.here();
    const std::string size = line.next();
    const std::size_t slash = size.find('/');
    const auto step = number_in(size.substr(0, slash)),
               walk = slash == std::string::npos ? std::optional<std::int64_t>(0) : number_in(size.substr(slash + 1));
    if (!walk || (slash != std::string::npos && !*walk)) {
      fault = {number, "the part of a turn of `" + loop.index + "` is no number above 0"};
      return std::nullopt;
    }
    if (!step || !*step) {
      fault = {number, "the step of `" + loop.index + "` is no number above 0"};
      return std::nullopt;
    }
    loop.step = *step, loop.walk = *walk;
    loops.push_back(loop);
  }
  return loops;
}

std::optional<GivenGroup> parse_head(PlanLine line, const poly::Program& program, PlanFault& fault) {
  GivenGroup given{{}, {}, false, line.span()};
  Group& group = given.group;
  line.next();
  group.name = line.next();
  if (group.name.empty()) {
    fault = {line.span(), "a group has the name of what it computes"};
    return std::nullopt;
  }
  for (const auto& [word, tensors] : {std::pair{"local", &group.locals}, std::pair{"keep", &group.kept}}) {
    if (line.peek() != word) continue;
    line.next();
    while (line.more() && line.peek() != "keep" && line.peek() != "threads") {
      const lang::Span span = line.here();
      const int node = node_of(program, line.next());
      if (node < 0) {
        fault = {span, "no statement computes what group `" + group.name + "` has behind `" + word + "`"};
        return std::nullopt;
      }
      tensors->push_back(target_of(program, node));
    }
  }
  if (!line.more()) return given;
  const lang::Span span = line.here();
  const bool threads = line.next() == "threads";
  const auto count = threads ? number_in(line.next()) : std::nullopt;
  if (!count || line.more()) {
    fault = {span, "behind its name a group has `local TENSOR…`, `keep TENSOR…` and `threads NUMBER`"};
    return std::nullopt;
  }
  group.threads = *count;
  return given;
}

}  // namespace

std::string print(const Plan& plan) {
  std::string text;
  for (const Directive& directive : plan.directives) text += print(directive) + "\n";
  for (const Group& group : plan.groups) {
    text += "group " + group.name;
    for (const auto& [word, tensors] : {std::pair{"local", &group.locals}, std::pair{"keep", &group.kept}}) {
      if (!tensors->empty()) text += fmt::format("  {}", word);
      for (const TensorId id : *tensors) text += " " + plan.program.tensor(id).name;
    }
    if (group.threads) text += fmt::format("  threads {}", group.threads);
    text += "\n";
    std::string indent = "  ";
    if (!group.loops.empty()) {
      text += fmt::format("{}parallel {}\n", indent, list_of(group.loops));
      indent = "    ";
    }
    if (!group.tile.empty()) text += fmt::format("{}tile {}\n", indent, list_of(group.tile)), indent = "    ";
    for (const Compute& leaf : group.body) text += indent + print(plan.program, leaf) + "\n";
  }
  return text;
}

std::optional<std::vector<GivenGroup>> parse_groups(
    const std::vector<PlanLine>& lines, const poly::Program& program, PlanFault& fault) {
  std::vector<GivenGroup> groups;
  for (const PlanLine& line : lines) {
    if (line.head() == "group") {
      auto group = parse_head(line, program, fault);
      if (!group) return std::nullopt;
      groups.push_back(std::move(*group));
      continue;
    }
    if (groups.empty()) {
      if (line.head() == "no" || stage_of(line.head())) continue;
      fault = {line.span(), "a plan starts with `group NAME` or a directive"};
      return std::nullopt;
    }
    if (line.head() == "parallel" || line.head() == "tile") {
      const auto loops = parse_loops(line, fault);
      if (!loops) return std::nullopt;
      (line.head() == "tile" ? groups.back().group.tile : groups.back().group.loops) = *loops;
      groups.back().parallel = true;
      continue;
    }
    auto leaf = LeafReader(line, program).read(fault);
    if (!leaf) return std::nullopt;
    groups.back().leaves.push_back(std::move(*leaf));
  }
  return groups;
}

std::optional<std::vector<Group>> parse_groups(
    const std::string& text, const poly::Program& program, std::string& message) {
  PlanFault fault;
  const auto given = parse_groups(lines_of(text), program, fault);
  message = fault.what;
  if (!given) return std::nullopt;
  std::vector<Group> groups;
  for (const GivenGroup& one : *given) {
    groups.push_back(one.group);
    for (const GivenLeaf& leaf : one.leaves) {
      groups.back().body.push_back(leaf.leaf);
      if (!leaf.misfit.empty()) {
        message = leaf.misfit;
        return std::nullopt;
      }
    }
  }
  return groups;
}

}  // namespace tilec::codegen
