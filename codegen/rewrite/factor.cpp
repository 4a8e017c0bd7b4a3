// Takes sums apart where that pays, and applies directives that say so.
//
// A statement sums a product over indices S. Choose some of them, R: the factors that depend on R are summed over R
// into a temporary, over whatever else they and the rows of R depend on; the statement then sums the temporary times
// the other factors over S \ R. Both halves may be taken apart further. All choices are counted, the one with the
// fewest points is taken (choose/factors.h).
#include "codegen/rewrite/factor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "autodiff/graph.h"
#include "codegen/choose/common_sums.h"
#include "codegen/choose/factors.h"
#include "codegen/intervals.h"
#include "codegen/model/estimates.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/restate.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/chunks.h"
#include "codegen/rewrite/halves.h"
#include "codegen/running.h"
#include "poly/hull.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Program;
using poly::Statement;

bool is_made_before(const Program& program, std::size_t n, TensorId id) {
  const auto makes = [&](const poly::Node& node) {
    const auto* s = std::get_if<Statement>(&node);
    return s && s->target.tensor == id;
  };
  return std::any_of(program.nodes.begin(), program.nodes.begin() + static_cast<std::ptrdiff_t>(n), makes);
}

// Whether a statement without its rows would read and write elements that there are.
bool stays_inside(const Program& program, const Statement& s) {
  poly::Box box;
  for (std::size_t k = 0; k < s.indices.size(); ++k) box.index.push_back({low(s, k), low(s, k) + extent(s, k) - 1});
  const auto inside = [&](const Access& access) {
    for (std::size_t d = 0; d < access.element.size(); ++d)
      if (!access.element[d].divisor.is(1) ||
          !poly::implied(poly::row_of({access.element[d], program.tensor(access.tensor).shape[d]}), box))
        return false;
    return true;
  };
  return inside(s.target) && std::ranges::all_of(s.reads, inside);
}

// Drops rows over outputs alone, which spare elements that nobody reads: blocks of threads compute whole squares
// sooner.
void widen(const Program& program, Statement& s) {
  const std::size_t indices = s.indices.size();
  for (std::size_t r = indices; r < s.domain.size(); ++r)
    for (std::size_t k = 0; k < indices; ++k)
      if (mentions(s.domain[r].value, k) && !is_output_index(s, k)) return;
  if (stays_inside(program, s)) s.domain.resize(indices);
}

// What is summed first stands in front of the statement at n, but for what equals a statement before it: that is read
// instead. How many statements stand at n now that stood there not.
std::size_t cut_at(Rewriting& r, std::size_t n, Halves halves) {
  Program& program = r.program;
  const std::string name = target_name(program, halves.outer);
  const auto first = static_cast<TensorId>(program.tensors.size());
  std::vector<TensorId> read_as;
  std::vector<Statement> before;
  const auto rename_tensor = [&](TensorId& id) {
    if (id >= first) id = read_as[static_cast<std::size_t>(id - first)];
  };
  const auto rename = [&](Statement& s) {
    for (Access& read : s.reads) rename_tensor(read.tensor);
    if (auto* link = std::get_if<TensorId>(&s.fill)) rename_tensor(*link);
  };
  for (HalfSum& part : halves.inner) {
    const auto id = static_cast<TensorId>(program.tensors.size());
    rename(part.statement);
    part.statement.target.tensor = id;
    part.temporary.name = fresh_name(program, name + part.temporary.name);
    program.tensors.push_back(part.temporary);
    if (has_threads(r.target)) widen(program, part.statement);
    read_as.push_back(id);
    if (!part.statement.reads.empty()) {               // else what others begin with
      const auto [made, is_new] = r.sums.try_emplace(form_of(program, part.statement), id);
      if (!is_new && is_made_before(program, n, made->second)) read_as.back() = made->second;
    }
    if (read_as.back() == id) {
      r.strides.push_back(row_major(extents(part.temporary)));
      before.push_back(std::move(part.statement));
    } else {
      program.tensors.pop_back();
    }
  }
  rename(halves.outer);
  program.nodes[n] = std::move(halves.outer);
  const std::size_t count = before.size();
  insert(program, n, std::move(before));
  return count;
}

// The statement at n as halves; where f32 would be summed that a statement before it sums in f64, that is read.
std::optional<Halves> halves_at(Rewriting& r, std::size_t n, const FactoredProduct& product,
    const std::vector<std::size_t>& summed, WorthHalves worth) {
  Program& program = r.program;
  const auto& s = std::get<Statement>(program.nodes[n]);
  const auto first = static_cast<TensorId>(program.tensors.size());
  worth.reciprocals = has_threads(r.target);
  auto halves = halves_of_sum(program, s, product, first, summed, worth);
  if (!halves || halves->inner.empty() || halves->inner.front().temporary.dtype != lang::DType::F32) return halves;
  worth.wide = true;
  Halves wide = halves_of_sum(program, s, product, first, summed, worth).value();
  program.tensors.push_back(wide.inner.front().temporary);
  const auto made = r.sums.find(form_of(program, wide.inner.front().statement));
  program.tensors.pop_back();
  return made != r.sums.end() && is_made_before(program, n, made->second) ? std::move(wide) : std::move(halves);
}

// The sum with conditions as rows or told by runs, and straight indices; nothing where it is that already.
std::optional<Statement> restated(const Program& program, const Statement& s) {
  std::optional<Statement> other = told_by_runs(program, s);
  if (auto products = gathered(other ? *other : s)) other = std::move(products);
  if (auto no_condition = unmasked(program, other ? *other : s)) other = std::move(no_condition);
  if (auto straight = straightened(other ? *other : s)) other = std::move(straight);
  return other;
}

// A statement in its place.
using Readers = std::vector<std::pair<std::size_t, Statement>>;

// The readers of the sum at n, each with that sum in it; nothing where one of them cannot have it.
std::optional<Readers> with_sum(const Program& program, std::size_t n) {
  const Statement& s = std::get<Statement>(program.nodes[n]);
  const TensorId id = s.target.tensor;
  if (s.aggregation != Aggregation::Sum || is_output(program, id) || program.tensor(id).dtype != s.value.type())
    return std::nullopt;
  Readers readers;
  for (std::size_t r = n + 1; r < program.nodes.size(); ++r) {
    if (!reads(program.nodes[r], id)) continue;
    const auto* reader = std::get_if<Statement>(&program.nodes[r]);
    auto one = reader && !(reader->fill == std::variant<poly::Number, TensorId>(id)) ? merged(program, s, *reader)
                                                                                     : std::nullopt;
    if (!one) return std::nullopt;
    readers.emplace_back(r, std::move(*one));
  }
  return readers;
}

void absorb_at(Program& program, std::size_t n, Readers readers) {
  for (auto& [r, one] : readers) program.nodes[r] = std::move(one);
  program.nodes.erase(program.nodes.begin() + static_cast<std::ptrdiff_t>(n));
}

// Statements before n that nobody reads any more go. Where the one at n is then.
std::size_t drop_unread(Program& program, std::size_t n) {
  for (std::size_t at = n; at-- > 0;) {
    const auto* s = std::get_if<Statement>(&program.nodes[at]);
    if (!s || is_output(program, s->target.tensor)) continue;
    if (std::any_of(program.nodes.begin(), program.nodes.end(),
            [&](const poly::Node& node) { return reads(node, s->target.tensor); }))
      continue;
    program.nodes.erase(program.nodes.begin() + static_cast<std::ptrdiff_t>(at));
    --n;
  }
  return n;
}

// The statement at n told by running sums, in front of it. Where the first of the sums is then.
std::size_t told_at(Rewriting& r, std::size_t n, ToldBySteps told) {
  Program& program = r.program;
  while (r.strides.size() < program.tensors.size())
    r.strides.push_back(row_major(extents(program.tensors[r.strides.size()])));
  program.nodes[n] = std::move(told.sum);
  insert(program, n, std::move(told.before));
  return drop_unread(program, n);
}

void part_at(Rewriting& r, std::size_t n, Apart apart) {
  Program& program = r.program;
  while (r.strides.size() < program.tensors.size())
    r.strides.push_back(row_major(extents(program.tensors[r.strides.size()])));
  program.nodes[n] = std::move(apart.both);
  insert(program, n, {std::move(apart.strip), std::move(apart.rest)});
}

class Factoring {
 public:
  explicit Factoring(Rewriting& r) : r_(r), program_(r.program), read_by_sums_(r.program.tensors.size(), true) {
    for (const poly::Node& node : program_.nodes) {
      const auto* s = std::get_if<Statement>(&node);
      for (const TensorId id : autodiff::operands(node))
        read_by_sums_[static_cast<std::size_t>(id)] =
            read_by_sums_[static_cast<std::size_t>(id)] && s && s->aggregation == Aggregation::Sum;
    }
  }

  void run() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const auto* s = std::get_if<Statement>(&program_.nodes[n]);
      if (!s || s->aggregation == Aggregation::Assign || s->aggregation == Aggregation::Product ||
          box_of(*s) < model::least_to_factor)
        continue;
      if (absorbed(n)) {
        --n;
        continue;
      }
      if (told(n)) {
        --n;
        continue;
      }
      restate(n);
      if (unfold(n)) {
        --n;
        continue;
      }
      if (reached(n) || parted(n)) {
        --n;
        continue;
      }
      share(n);
      while (cut(n)) {}
    }
  }

 private:
  static double box_of(const Statement& s) {
    double count = 1;
    for (std::size_t k = 0; k < s.indices.size(); ++k) count *= static_cast<double>(extent(s, k));
    return count;
  }

  FactorChoice choice_of(const Statement& s) const { return choose_factors(program_, s, r_.target); }

  // A sum of products over intervals reads running sums instead; n becomes the position of the first of these.
  bool told(std::size_t& n) {
    const std::size_t known = program_.tensors.size();
    const Statement s = std::get<Statement>(program_.nodes[n]);
    auto other = told_by_gates(program_, s);
    const bool gates = other.has_value();
    if (!gates) other = told_by_logs(program_, s);
    if (!other) return false;
    double cost = choice_of(other->sum).cost;
    for (const Statement& before : other->before) cost += choice_of(before).cost;
    if (cost > model::factored_share * choice_of(s).cost) {
      program_.tensors.resize(known);
      return false;
    }
    if (gates) r_.done.push_back(directives::Gates{target_name(program_, s)});
    else r_.done.push_back(directives::Logs{target_name(program_, s)});
    n = told_at(r_, n, std::move(*other));
    return true;
  }

  bool reached(std::size_t n) {
    directives::Reach done{target_name(program_, std::get<Statement>(program_.nodes[n]))};
    if (!reach_all_values(r_, n)) return false;
    r_.done.push_back(std::move(done));
    return true;
  }

  bool parted(std::size_t n) {
    const Statement s = std::get<Statement>(program_.nodes[n]);
    const auto cost = cost_apart(program_, s, r_.target);
    if (!cost || *cost > model::factored_share * computed_points(s)) return false;
    r_.done.push_back(directives::Restate{target_name(program_, s)});
    part_at(r_, n, set_apart(program_, s).value());
    return true;
  }

  void restate(std::size_t n) {
    const auto& s = std::get<Statement>(program_.nodes[n]);
    std::optional<Statement> other = restated(program_, s);
    if (!other || choice_of(*other).cost > model::factored_share * choice_of(s).cost) return;
    r_.done.push_back(directives::Restate{target_name(program_, s)});
    program_.nodes[n] = std::move(*other);
  }

  // A sum whose factors other statements make is written out where it then goes in chunks.
  bool unfold(std::size_t& n) {
    const Statement s = std::get<Statement>(program_.nodes[n]);
    std::optional<Statement> other = unfolded(program_, n);
    if (!other) return false;
    const FactorChoice choice = choice_of(*other);
    const bool is_product = is_matrix_product(s) && s.domain.size() == s.indices.size();
    const double written = choice_of(s).cost * (is_product ? model::product_point / 2 : 1);  // of f32
    if (!choice.chunk || choice.cost > model::factored_share * written) return false;
    r_.done.push_back(directives::Unfold{target_name(program_, s)});
    program_.nodes[n] = std::move(*other);
    n = drop_unread(program_, n);
    return true;
  }

  // A sum that other sums read as a factor goes into them, where all of them together then cost less.
  bool absorbed(std::size_t n) {
    const Statement& s = std::get<Statement>(program_.nodes[n]);
    const TensorId id = s.target.tensor;
    if (static_cast<std::size_t>(id) < read_by_sums_.size() && !read_by_sums_[static_cast<std::size_t>(id)])
      return false;
    std::optional<Readers> readers = with_sum(program_, n);
    if (!readers || readers->empty()) return false;
    double separate = computed_points(s) + stored_element(r_.target) * elements(program_, id), together = 0;
    for (const auto& [r, one] : *readers) {
      separate += choice_of(std::get<Statement>(program_.nodes[r])).cost;
      together += choice_of(one).cost;
    }
    if (together > model::factored_share * separate) return false;
    r_.done.push_back(directives::Absorb{target_name(program_, s)});
    absorb_at(program_, n, std::move(*readers));
    return true;
  }

  // What statements behind the one at n sum too is summed first, once; n stays the position of the other half.
  void share(std::size_t& n) {
    if (!model::predicts_time(r_.target)) return;      // on a GPU, tensors between launches take longer
    const std::vector<CommonSum> all = choose_common_sum(program_, n, r_.target);
    std::size_t more = 0;                              // statements than when these were found
    for (const CommonSum& one : all) {
      std::size_t at = one.node + more;
      factor(at, one.summed, {.quotients = true, .others = true});
      more = at - one.node;
      if (one.node == n) n = at;
    }
  }

  // Cuts the statement at n, what is summed first further at once; n stays the position of the other half.
  bool cut(std::size_t& n) {
    const Statement s = std::get<Statement>(program_.nodes[n]);
    const FactorChoice choice = choice_of(s);
    if (choice.summed.empty()) return false;
    if (!choice.chunk) return factor(n, choice.summed, {.quotients = choice.quotients}), true;
    const std::size_t over = choice.summed.front();
    r_.done.push_back(directives::Chunks{target_name(program_, s), s.indices[over], choice.chunk});
    const FactoredProduct product = product_of(s).value();
    const ChunkedTriangle triangle = chunked_triangle(program_, s, product, over).value();
    apart(n, chunks_of(program_, s, product, triangle, choice.chunk, r_.target,
                static_cast<TensorId>(program_.tensors.size())));
    return true;
  }

  void factor(std::size_t& n, const std::vector<std::size_t>& summed, WorthHalves worth) {
    const Statement s = std::get<Statement>(program_.nodes[n]);
    directives::Factor done{target_name(program_, s), {}};
    for (const std::size_t k : summed) done.sums.push_back(s.indices[k]);
    r_.done.push_back(std::move(done));
    apart(n, halves_at(r_, n, product_of(s).value(), summed, worth).value());
  }

  void apart(std::size_t& n, Halves halves) {
    for (std::size_t made = cut_at(r_, n, std::move(halves)); made > 0; --made) {
      if (parted(n)) n += 2;
      while (cut(n)) {}
      ++n;
    }
  }

  Rewriting& r_;
  Program& program_;
  std::vector<bool> read_by_sums_;                     // of a tensor of the text: by nothing else
};

// What a directive says of the products over intervals of a sum. `kind`: of a sum that has them.
template <class Directive>
Refusal tell(Rewriting& r, const Directive& directive,
    std::optional<ToldBySteps> (*told_by)(Program&, const Statement&), const char* kind) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const Statement s = std::get<Statement>(r.program.nodes[*n]);
  auto told = told_by(r.program, s);
  if (!told) return fmt::format("`{}` is no {}", directive.tensor, kind);
  static_cast<void>(told_at(r, *n, std::move(*told)));
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace

void factor_sums(Rewriting& r) { Factoring(r).run(); }

Refusal apply(Rewriting& r, const directives::Absorb& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  std::optional<Readers> readers = with_sum(r.program, *n);
  if (!readers || readers->empty())
    return fmt::format("`{}` is no sum that only sums read, each as a factor", directive.tensor);
  absorb_at(r.program, *n, std::move(*readers));
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Unfold& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  std::optional<Statement> other = unfolded(r.program, *n);
  if (!other)
    return fmt::format(
        "`{}` sums over no triangle with a factor over both of its indices that a statement makes", directive.tensor);
  r.program.nodes[*n] = std::move(*other);
  static_cast<void>(drop_unread(r.program, *n));
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Restate& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  std::optional<Statement> other = restated(r.program, std::get<Statement>(r.program.nodes[*n]));
  if (other) {
    r.program.nodes[*n] = std::move(*other);
  } else {
    auto apart = set_apart(r.program, std::get<Statement>(r.program.nodes[*n]));
    if (!apart)
      return fmt::format(
          "`{}` has no condition that a row could say, no factors in common, no index in one form only, and no values whose weights are of another kind",
          directive.tensor);
    part_at(r, *n, std::move(*apart));
  }
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Reach& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  if (!reach_all_values(r, *n))
    return fmt::format(
        "`{}` is no running extreme that sums compare with, or has an element for each value", directive.tensor);
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Gates& directive) {
  return tell(r, directive, told_by_gates,
      "running sum of products over intervals, narrower than f64, that grow by a factor");
}

Refusal apply(Rewriting& r, const directives::Logs& directive) {
  return tell(r, directive, told_by_logs,
      "sum of products over intervals, narrower than f64, whose factors are told by one index");
}

Refusal apply(Rewriting& r, const directives::Chunks& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const Statement s = std::get<Statement>(r.program.nodes[*n]);
  const auto over = index_of(s, directive.index);
  if (!over || is_output_index(s, *over))
    return fmt::format("`{}` does not reduce over an index `{}`", directive.tensor, directive.index);
  const auto product = product_of(s);
  const auto triangle = product ? chunked_triangle(r.program, s, *product, *over) : std::nullopt;
  if (!triangle)
    return fmt::format("`{}` sums no product over a triangle of {} that the factors or a decay of f32 take apart",
        directive.tensor, directive.index);
  const std::int64_t least = 1 - triangle->c, length = extent(s, triangle->along);
  if (directive.size < least || directive.size >= length)
    return fmt::format("chunks of {} have from {} to {} places", directive.tensor, least, length - 1);
  static_cast<void>(cut_at(r, *n,
      chunks_of(r.program, s, *product, *triangle, directive.size, r.target,
          static_cast<TensorId>(r.program.tensors.size()))));
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Factor& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const Statement s = std::get<Statement>(r.program.nodes[*n]);
  std::vector<std::size_t> summed;
  for (const std::string& name : directive.sums) {
    const auto k = index_of(s, name);
    if (!k || is_output_index(s, *k))
      return fmt::format("`{}` does not reduce over an index `{}`", directive.tensor, name);
    if (std::ranges::find(summed, *k) == summed.end()) summed.push_back(*k);
  }
  std::sort(summed.begin(), summed.end());
  const auto product = product_of(s);
  auto halves = product ? halves_at(r, *n, *product, summed, {.quotients = true, .others = true}) : std::nullopt;
  if (!halves)
    return fmt::format(
        "no factor of `{}` can leave the sum over {}", directive.tensor, fmt::join(directive.sums, ", "));
  if (bytes_of(*halves) > static_cast<double>(model::largest_temporary))
    return fmt::format("the sums would take {:.0f} bytes", bytes_of(*halves));
  static_cast<void>(cut_at(r, *n, std::move(*halves)));
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace tilec::codegen
