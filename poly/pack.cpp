#include "poly/pack.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/limit.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/pack.h"
#include "lang/print.h"
#include "lang/walk.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

// `rank` dimensions are written as `list`, in which packs stand for as many as are left.
struct Equation {
  std::vector<lang::Expr> list;
  std::size_t rank;
  std::string tensor;
  std::string said_by;                                 // `X` of the heading, `X[b..., n]` of a statement
  Span span;
  enum class Of { Input, Target, Read } of;
};

// how often each pack stands in a list
struct Content { std::size_t plain = 0; std::map<std::string, std::size_t> packs = {}; };

Content content_of(const std::vector<lang::Expr>& list) {
  Content content;
  for (const auto& e : list)
    if (const auto* name = lang::pack(e)) ++content.packs[name->spelled()];
    else ++content.plain;
  return content;
}

std::string written(const std::string& tensor, const std::vector<lang::Expr>& element) {
  std::string text;
  for (const auto& e : element) text += (text.empty() ? "" : ", ") + lang::print(e);
  return fmt::format("{}[{}]", tensor, text);
}

std::string dimensions(std::size_t count) { return counted(count, "dimension"); }

class Solver {
 public:
  explicit Solver(Scope& scope) : scope_(scope) {}

  // Finds what packs stand for, one at a time. False: an equation cannot hold, which is reported.
  bool solve(std::vector<Equation> equations) {
    for (bool again = true; again;) {
      again = false;
      for (auto at = equations.begin(); at != equations.end();) {
        const auto done = settle(*at);
        if (!done) return false;
        again |= *done;
        at = *done ? equations.erase(at) : at + 1;
      }
    }
    left_ = std::move(equations);
    return true;
  }

  // Of what is left, an equation of several packs that only it mentions.
  void report_open(const std::string& pack) {
    for (const auto& equation : left_) {
      const auto content = content_of(equation.list);
      if (!content.packs.contains(pack)) continue;
      std::vector<std::string> open;
      for (const auto& [name, count] : content.packs)
        if (!scope_.packs.contains(name)) open.push_back(fmt::format("`{}...`", name));
      scope_.diagnostics
          .report(equation.span, messages::pack_ranks_open, equation.tensor, dimensions(equation.rank),
              fmt::format("{}", fmt::join(open, " and ")))
          .hint(equation.of == Equation::Of::Input
                  ? fmt::format(
                        "say how many one of them stands for: `--rank {}=1`, or by an input that has it alone", pack)
                  : fmt::format(
                        "a statement that has `{}...` without the other, before this one, tells how many it stands for",
                        pack));
      return;
    }
  }

  bool is_open(const std::string& pack) const {
    return std::any_of(left_.begin(), left_.end(),
        [&](const Equation& equation) { return content_of(equation.list).packs.contains(pack); });
  }

 private:
  // True: it holds. False: more than one pack is open. Nothing: it cannot hold.
  std::optional<bool> settle(const Equation& equation) {
    const auto content = content_of(equation.list);
    std::size_t known = content.plain;
    const std::string* open = nullptr;
    for (const auto& [name, count] : content.packs) {
      const auto at = scope_.packs.find(name);
      if (at != scope_.packs.end()) known += count * at->second.rank;
      else if (open) return false;
      else open = &name;
    }
    const std::size_t times = open ? content.packs.at(*open) : 0;
    if (open && known <= equation.rank && (equation.rank - known) % times == 0) {
      scope_.packs[*open] = {(equation.rank - known) / times, equation.said_by, span_of(equation, *open)};
      return true;
    }
    if (!open && known == equation.rank) return true;
    differ(equation, content, known, open);
    return std::nullopt;
  }

  static Span span_of(const Equation& equation, const std::string& pack) {
    for (const auto& e : equation.list)
      if (const auto* name = lang::pack(e); name && name->spelled() == pack) return e.span();
    return equation.span;
  }

  void differ(const Equation& equation, const Content& content, std::size_t known, const std::string* open) {
    using enum Equation::Of;
    // One pack, which would have to stand for another number here.
    const bool whole_target = equation.of == Target && equation.list.size() > 1;  // of which the sizes are counted
    if (!open && !whole_target && content.packs.size() == 1 && content.packs.begin()->second == 1 &&
        equation.rank >= content.plain) {
      const auto& name = content.packs.begin()->first;
      const Pack& before = scope_.packs.at(name);
      auto entry = scope_.diagnostics.report(span_of(equation, name), messages::pack_ranks, name,
          dimensions(before.rank), before.said_by, std::to_string(equation.rank - content.plain), equation.said_by);
      if (!before.span.empty()) entry.label(before.span, fmt::format("{} here", dimensions(before.rank)));
      return;
    }
    const std::string count = (open ? "at least " : "");
    if (equation.of == Input) {
      scope_.diagnostics.report(equation.span, messages::given_rank, equation.tensor, count + dimensions(known),
          equation.rank == 0 ? "a scalar" : dimensions(equation.rank));
      return;
    }
    const std::string indices = count + counted(known, "index");
    auto entry = equation.of == Read ? scope_.diagnostics.report(equation.span, messages::rank_mismatch,
                                           equation.tensor, dimensions(equation.rank), "read", indices)
                                     : scope_.diagnostics.report(equation.span, messages::sizes_count, equation.tensor,
                                           indices, counted(equation.rank, "size"));
    for (const auto& [name, times] : content.packs)
      if (const auto at = scope_.packs.find(name); at != scope_.packs.end() && !at->second.span.empty())
        entry.label(at->second.span, fmt::format("`{}...` is {}", name, dimensions(at->second.rank)));
  }

  Scope& scope_;
  std::vector<Equation> left_ = {};
};

lang::Ranks ranks_in(const Scope& scope) {
  lang::Ranks ranks;
  for (const auto& [name, pack] : scope.packs) ranks[name] = pack.rank;
  return ranks;
}

bool take_asked(Scope& scope, const lang::Function& function, const std::vector<lang::Name>& packs,
    const std::map<std::string, std::int64_t>& asked) {
  for (const auto& [name, rank] : asked) {
    const auto pack =
        std::find_if(packs.begin(), packs.end(), [&](const lang::Name& each) { return each.text == name; });
    if (pack != packs.end() && rank >= 0) {
      if (!lang::within(lang::Limit::Indices, rank, pack->span, scope.diagnostics)) return false;
      scope.packs[pack->spelled()] = {static_cast<std::size_t>(rank), "--rank", {}};
      continue;
    }
    const std::string which = function.name ? fmt::format("`{}`", function.name->text) : "the function";
    if (pack != packs.end()) {
      scope.diagnostics.report(
          pack->span, messages::negative_size, fmt::format("rank of {}...", name), std::to_string(rank));
      return false;
    }
    std::vector<std::string> names, marked;
    for (const auto& each : packs) names.push_back(each.text), marked.push_back(fmt::format("`{}...`", each.text));
    const auto near = lang::nearest(name, names);
    scope.diagnostics.report(function.span_of_head(), messages::unknown_pack, which, name)
        .hint(near              ? fmt::format("did you mean `{}`?", *near)
                : names.empty() ? "its inputs have as many as they show"
                                : fmt::format("it has {}", fmt::join(marked, ", ")));
    return false;
  }
  return true;
}

// of a pack that an attribute tells: its dimensions, and the axis as it was given
struct Told { std::size_t count; std::int64_t axis; Span span; };

// The first input that has the dimensions of input k but for the one along the axis, and another number of them:
// X[A..., M, C...] beside Z[A..., N, C...].
std::optional<std::size_t> beside(
    const lang::Function& function, const std::vector<std::optional<std::size_t>>& ranks, std::size_t k) {
  const auto& sizes = *function.inputs[k].sizes;
  const auto same = [](const lang::Expr& a, const lang::Expr& b) { return *lang::pack(a) == *lang::pack(b); };
  for (std::size_t other = 0; other < k; ++other) {
    const auto& its = function.inputs[other].sizes;
    if (!its || its->size() != sizes.size() || !ranks[other] || ranks[other] == ranks[k]) continue;
    if (lang::pack(its->front()) && lang::pack(its->back()) && same(its->front(), sizes.front()) &&
        same(its->back(), sizes.back()))
      return other;
  }
  return std::nullopt;
}

// No axes are 2 to 1: of X[A..., R..., C...] with A in front of axis 2 and C behind axis 1, R is empty, which nobody
// means. A scalar has no dimensions at all.
bool in_order(Scope& scope, const lang::Function& function, const std::vector<std::optional<std::size_t>>& ranks,
    const std::map<std::string, Told>& before, const std::map<std::string, Told>& after) {
  for (std::size_t k = 0; k < function.inputs.size() && k < ranks.size(); ++k) {
    const lang::Input& input = function.inputs[k];
    const auto& sizes = input.sizes;
    if (!sizes || sizes->size() < 3 || ranks[k].value_or(0) == 0) continue;
    const lang::Name *front = lang::pack(sizes->front()), *back = lang::pack(sizes->back());
    const auto first = front ? before.find(front->spelled()) : before.end();
    const auto last = back ? after.find(back->spelled()) : after.end();
    if (first == before.end() || last == after.end() || first->second.count + last->second.count < *ranks[k]) continue;
    if (const auto other = beside(function, ranks, k)) {
      scope.diagnostics
          .report(input.span, messages::given_rank, input.target.name.spelled(), dimensions(*ranks[*other]),
              dimensions(*ranks[k]))
          .label(function.inputs[*other].span,
              fmt::format("`{}` has {}", function.inputs[*other].target.name.spelled(), dimensions(*ranks[*other])))
          .hint("a `reshape` gives it the dimensions that it lacks");
      return false;
    }
    const std::string which = fmt::format("dimension from axis {} to axis {}", first->second.axis, last->second.axis);
    scope.diagnostics
        .report(first->second.span, messages::bad_axis, which,
            fmt::format("`{}`, which has {}", input.target.name.spelled(), dimensions(*ranks[k])))
        .hint("the first axis is in front of the last: exchange them");
    return false;
  }
  return true;
}

// `[[before(A, dim)]]`: A stands for `dim` dimensions. From the end, where the axis is negative, they are counted in
// the first input that has the pack; nothing is said where its rank is not known. In X[A..., C...] no dimension stands
// between the two: the axis is the one that a new dimension would have.
bool take_sides(Scope& scope, const lang::Function& function, const std::vector<std::optional<std::size_t>>& ranks) {
  std::map<std::string, Told> before, after;
  for (const auto& attribute : function.attributes) {
    const auto side = lang::side_of(attribute);
    if (!side || scope.packs.contains(side->pack.spelled())) continue;
    const auto has_it = [&](const lang::Input& input) {
      return input.sizes && content_of(*input.sizes).packs.contains(side->pack.spelled());
    };
    const auto input = std::find_if(function.inputs.begin(), function.inputs.end(), has_it);
    const auto k = static_cast<std::size_t>(input - function.inputs.begin());
    const auto rank = k < ranks.size() ? ranks[k] : std::nullopt;
    const auto* name = std::get_if<lang::Name>(&side->axis.value);
    const auto at = name ? scope.names.find(name->spelled()) : scope.names.end();
    const Named value = !name     ? number_of(std::get<lang::Number>(side->axis.value), side->axis.span)
        : at != scope.names.end() ? at->second
                                  : Named{};
    const auto axis = value.kind == Named::Kind::Size ? value.size.value() : std::nullopt;
    const bool is_new = input->sizes->size() == 2 &&
        std::ranges::all_of(*input->sizes, [](const lang::Expr& size) { return lang::pack(size) != nullptr; });
    // a scalar has axes 0 and -1, without dimensions
    const auto extent =
        static_cast<std::int64_t>(is_new ? rank.value_or(0) + 1 : std::max<std::size_t>(rank.value_or(0), 1));
    if (!axis || (rank && (*axis < -extent || *axis >= extent))) {
      const auto which = axis ? fmt::format("{}axis {}", is_new ? "new " : "", *axis)
                              : fmt::format("axis `{}`, no whole number,", name->spelled());
      auto entry = scope.diagnostics.report(side->axis.span, messages::bad_axis, which,
          fmt::format("`{}`{}", input->target.name.spelled(), rank ? ", which has " + dimensions(*rank) : ""));
      if (rank) entry.hint(fmt::format("axes are from {} to {}, those below 0 counted from the end", -extent, extent - 1));
      return false;
    }
    const bool counted_here = side->after ? *axis < 0 : *axis >= 0;
    if (!rank && !counted_here) continue;
    const auto count =
        side->after ? (counted_here ? -1 - *axis : extent - 1 - *axis) : (counted_here ? *axis : extent + *axis);
    scope.packs[side->pack.spelled()] = {
        static_cast<std::size_t>(count), fmt::format("[[{}(…)]]", attribute.name.text), side->span};
    (side->after ? after : before)[side->pack.spelled()] = {static_cast<std::size_t>(count), *axis, side->axis.span};
  }
  return in_order(scope, function, ranks, before, after);
}

// Where sizes are written with a pack at the same places, each pack of indices is one of these.
void add_places(const Scope& scope, const std::vector<lang::Expr>& element, const std::vector<lang::Expr>& sizes,
    const std::string& tensor, Equation::Of of, std::vector<Equation>& equations) {
  const bool alike = std::equal(element.begin(), element.end(), sizes.begin(), sizes.end(),
      [](const lang::Expr& a, const lang::Expr& b) { return !lang::pack(a) == !lang::pack(b); });
  for (std::size_t k = 0; alike && k < sizes.size(); ++k)
    if (const auto* name = lang::pack(sizes[k]))
      equations.push_back({{element[k]}, scope.packs.at(name->spelled()).rank, tensor, written(tensor, element),
          element[k].span(), of});
}

std::vector<Equation> equations_of(Scope& scope, const lang::Contraction& c) {
  std::vector<Equation> equations;
  const auto target = c.target.name.spelled();
  add_places(scope, c.element, c.sizes, target, Equation::Of::Target, equations);
  equations.push_back({c.element, lang::expanded(c.sizes, ranks_in(scope)).size(), target, written(target, c.element),
      c.target.span, Equation::Of::Target});
  std::vector<std::pair<const lang::Access*, Span>> reads;
  lang::each_access(c.body, [&](const lang::Access& a, const lang::Expr& e) { reads.emplace_back(&a, e.span()); });
  for (const auto& [access, span] : reads) {
    const auto tensor = access->tensor.spelled();
    const auto named = scope.names.find(tensor);
    if (named == scope.names.end() || content_of(access->element).packs.empty()) continue;
    if (const auto sizes = scope.sizes_written.find(tensor); sizes != scope.sizes_written.end())
      add_places(scope, access->element, sizes->second, tensor, Equation::Of::Read, equations);
    if (const auto rank = ranks_of(scope, {named->second})[0])
      equations.push_back({access->element, *rank, tensor, written(tensor, access->element), span, Equation::Of::Read});
  }
  scope.sizes_written[target] = c.sizes;
  return equations;
}

}  // namespace

std::shared_ptr<const lang::Function> with_ranks(Scope& scope, const lang::Function& function,
    const std::vector<std::optional<std::size_t>>& ranks, const std::map<std::string, std::int64_t>& asked) {
  const auto packs = lang::packs_of(function);
  if (!take_asked(scope, function, packs, asked)) return nullptr;
  if (packs.empty()) return {std::shared_ptr<const void>(), &function};
  if (!take_sides(scope, function, ranks)) return nullptr;
  std::vector<Equation> equations;
  for (std::size_t k = 0; k < function.inputs.size() && k < ranks.size(); ++k)
    if (const auto& input = function.inputs[k]; input.sizes && ranks[k])
      equations.push_back({*input.sizes, *ranks[k], input.target.name.spelled(), input.target.name.spelled(),
          input.span, Equation::Of::Input});
  Solver solver(scope);
  if (!solver.solve(std::move(equations))) return nullptr;
  for (const auto& name : packs) {
    if (scope.packs.contains(name.spelled())) continue;
    if (solver.is_open(name.spelled())) solver.report_open(name.spelled());
    else
      scope.diagnostics.report(name.span, messages::pack_rank_missing, name.spelled())
          .hint(fmt::format("say it: `--rank {0}=2`, or `--rank {0}=0` where it is none", name.text));
    return nullptr;
  }
  for (const auto& input : function.inputs)
    if (input.sizes) scope.sizes_written[input.target.name.spelled()] = *input.sizes;
  return std::make_shared<const lang::Function>(lang::expanded_heading(function, ranks_in(scope)));
}

std::vector<std::optional<std::size_t>> ranks_of(const lang::Function& function, const Signature& signature) {
  std::vector<std::optional<std::size_t>> ranks;
  for (const auto& input : function.inputs) {
    const auto given = std::find_if(signature.inputs.begin(), signature.inputs.end(),
        [&](const Given& each) { return each.name == input.target.name.text; });
    const bool shaped = given != signature.inputs.end() && given->shape;
    const bool scalar = given != signature.inputs.end() && !shaped && (given->weak || given->integer);
    ranks.push_back(shaped ? std::optional(given->shape->size())
            : scalar       ? std::optional<std::size_t>(0)
                           : std::nullopt);
  }
  return ranks;
}

std::vector<std::optional<std::size_t>> ranks_of(const Scope& scope, const std::vector<Named>& arguments) {
  std::vector<std::optional<std::size_t>> ranks;
  for (const auto& argument : arguments) {
    const bool scalar = !argument.absent &&
        (argument.kind == Named::Kind::Size || argument.kind == Named::Kind::Weak ||
            argument.kind == Named::Kind::Element);
    ranks.push_back(argument.kind == Named::Kind::Tensor ? std::optional(scope.tensor(argument.tensor).shape.size())
            : scalar                                     ? std::optional<std::size_t>(0)
                                                         : std::nullopt);
  }
  return ranks;
}

std::shared_ptr<const lang::Statement> without_packs(Scope& scope, const lang::Statement& statement) {
  const auto packs = lang::packs_in(statement);
  if (packs.empty()) return {std::shared_ptr<const void>(), &statement};
  if (const auto* c = std::get_if<lang::Contraction>(&statement.node)) {
    Solver solver(scope);
    if (!solver.solve(equations_of(scope, *c))) return nullptr;
    for (const auto& name : packs) {
      if (scope.packs.contains(name.spelled())) continue;
      solver.report_open(name.spelled());              // says nothing of tensors that were reported
      return nullptr;
    }
  }
  return std::make_shared<const lang::Statement>(lang::expanded(statement, ranks_in(scope)));
}

}  // namespace tilec::poly
