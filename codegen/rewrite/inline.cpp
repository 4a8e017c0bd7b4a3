// Which elementwise producers disappear into their readers, and how a value is seen from there.
#include "codegen/rewrite/inline.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "autodiff/graph.h"
#include "codegen/choose/kept_rows.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite.h"
#include "codegen/tensor_cores.h"
#include "codegen/rewrite/share.h"
#include "poly/fold.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Statement;

Expr replace_reads(const Expr& e, const std::map<int, Expr>& with) {
  return e.match(
      [&](const poly::Read& r) {
        const auto found = with.find(r.read);
        return found == with.end() ? e : found->second;
      },
      [&](const poly::Cast& c) { return Expr(poly::Cast{replace_reads(c.operand, with), c.type}); },
      [&](const poly::Apply& a) {
        std::vector<Expr> operands;
        for (const Expr& o : a.operands) operands.push_back(replace_reads(o, with));
        return Expr(poly::Apply{a.op, std::move(operands), a.type});
      },
      [&](const auto&) { return e; });
}

// Drops reads that the value no longer mentions, and merges equal ones.
void compact_reads(Statement& s) {
  std::vector<bool> used(s.reads.size(), false);
  const std::function<void(const Expr&)> mark = [&](const Expr& e) {
    e.match([&](const poly::Read& r) { used[static_cast<std::size_t>(r.read)] = true; },
        [&](const poly::Cast& c) { mark(c.operand); },
        [&](const poly::Apply& a) {
          for (const Expr& o : a.operands) mark(o);
        },
        [](const auto&) {});
  };
  mark(s.value);
  std::vector<Access> kept;
  std::map<int, Expr> renamed;
  const auto typed = [&](int r) {
    lang::DType type = lang::DType::F32;
    const std::function<void(const Expr&)> find = [&](const Expr& e) {
      e.match(
          [&](const poly::Read& x) {
            if (x.read == r) type = x.type;
          },
          [&](const poly::Cast& c) { find(c.operand); },
          [&](const poly::Apply& a) {
            for (const Expr& o : a.operands) find(o);
          },
          [](const auto&) {});
    };
    find(s.value);
    return type;
  };
  for (std::size_t r = 0; r < s.reads.size(); ++r) {
    if (!used[r]) continue;
    const auto same = std::find(kept.begin(), kept.end(), s.reads[r]);
    const int position = static_cast<int>(same - kept.begin());
    if (same == kept.end()) kept.push_back(s.reads[r]);
    renamed.emplace(static_cast<int>(r), Expr(poly::Read{position, typed(static_cast<int>(r))}));
  }
  s.value = replace_reads(s.value, renamed);
  s.reads = std::move(kept);
}

}  // namespace

Statement inlined(const Program& program, const Statement& producer, Statement consumer) {
  const TensorId id = producer.target.tensor;
  std::map<int, poly::Expr> with;
  const std::size_t original = consumer.reads.size(), count = consumer.indices.size();
  for (std::size_t r = 0; r < original; ++r) {
    if (consumer.reads[r].tensor != id) continue;
    std::vector<Affine> map(producer.indices.size());
    for (std::size_t d = 0; d < producer.target.element.size(); ++d)
      if (const auto k = plain_index(producer.target.element[d])) map[*k] = consumer.reads[r].element[d];
    std::vector<int> read_at;
    for (const Access& access : producer.reads) {
      Access seen{access.tensor, {}};
      for (const Affine& e : access.element) seen.element.push_back(e.compose(map, count));
      read_at.push_back(static_cast<int>(consumer.reads.size()));
      consumer.reads.push_back(std::move(seen));
    }
    with.emplace(
        static_cast<int>(r), poly::as_stored(seen_from(producer.value, map, count, read_at), program.tensor(id).dtype));
  }
  consumer.value = replace_reads(consumer.value, with);
  compact_reads(consumer);
  return consumer;
}

namespace {

bool fits_inlined(const Statement& producer, const Statement& consumer) {
  const auto uses = static_cast<int>(std::count_if(consumer.reads.begin(), consumer.reads.end(),
      [&](const Access& read) { return read.tensor == producer.target.tensor; }));
  return nodes(producer.value) * uses + nodes(consumer.value) <= model::largest_inlined &&
      consumer.reads.size() + producer.reads.size() <= model::most_reads;
}

// Whether recomputing the producer at each read costs less than storing and reading it.
bool worth_inlining(const Program& program, const Statement& producer, const Statement& consumer) {
  const TensorId id = producer.target.tensor;
  int uses = 0;
  for (const Access& read : consumer.reads) uses += read.tensor == id;
  const double ratio = points(consumer) * uses / std::max(1.0, elements(program, id));
  const bool map = consumer.aggregation == Aggregation::Assign && !reduces(consumer);
  if (!fits_inlined(producer, consumer)) return false;
  if (weight(producer.value) == 0 && producer.reads.size() <= 1) return map || ratio <= model::reads_of_copy;
  if (map && weight(producer.value) <= model::light) return true;
  return ratio <= model::reads_of_value;
}

// Whether it is a tensor of 16 bits in a type that holds all its values: tensor cores multiply what is read as it lies.
bool widened(const Expr& e, const Statement& producer, const Program& program) {
  const poly::Read* read = read_of(e);
  if (!read) return false;
  const lang::DType type = program.tensor(producer.reads[static_cast<std::size_t>(read->read)].tensor).dtype;
  return lang::is_float(type) && lang::bytes(type) == 2 && keeps_values(e, type);
}
bool widens(const Program& program, const Statement& producer) {
  return producer.reads.size() == 1 && widened(producer.value, producer, program);
}

// Whether it is one of these times, or by, what has fewer dimensions, as dO[t, e] / Z[t], and all that read it are sums
// of its multiples: what is multiplied stays narrow, and the others, and a condition of them, leave the sum or join its
// other factor (factor.h, online.h).
bool scales_narrow(const Program& program, const Statement& producer) {
  int narrow = 0;
  const auto is_zero = [](const Expr& e) {
    const auto* n = e.as<poly::Number>();
    return n && n->real == 0 && n->integer == 0;
  };
  const auto smaller = [&](const Expr& e) {
    return std::ranges::all_of(poly::parts(e), [&](const Expr& part) {
      const auto* read = part.as<poly::Read>();
      if (part.as<poly::Index>()) return false;
      return !read ||
          elements(program, producer.reads[static_cast<std::size_t>(read->read)].tensor) <
          elements(program, producer.target.tensor);
    });
  };
  const std::function<bool(const Expr&)> fits = [&](const Expr& e) -> bool {
    const auto* apply = e.as<poly::Apply>();
    if (apply && (apply->op == lang::Op::Mul || apply->op == lang::Op::Div) && lang::is_float(apply->type))
      return fits(apply->operands[0]) &&
          (apply->op == lang::Op::Mul || !widened(apply->operands[1], producer, program)) && fits(apply->operands[1]);
    if (widened(e, producer, program)) return ++narrow, true;
    if (apply && apply->op == lang::Op::Select)
      for (const std::size_t zero : {std::size_t{1}, std::size_t{2}})
        if (is_zero(apply->operands[zero])) return smaller(apply->operands[0]) && fits(apply->operands[3 - zero]);
    return smaller(e);
  };
  return fits(producer.value) && narrow == 1;
}
bool sums_multiples(const Statement& consumer, TensorId id) {
  if (consumer.aggregation != poly::Aggregation::Sum || !reduces(consumer)) return false;
  const std::function<int(const Expr&)> factors = [&](const Expr& e) -> int {
    const auto* apply = e.as<poly::Apply>();
    if (apply && apply->op == lang::Op::Mul) return factors(apply->operands[0]) + factors(apply->operands[1]);
    if (apply && apply->op == lang::Op::Div) return factors(apply->operands[0]);
    const auto* read = e.as<poly::Read>();
    return read && consumer.reads[static_cast<std::size_t>(read->read)].tensor == id;
  };
  return factors(consumer.value) == std::ranges::count(consumer.reads, id, &Access::tensor);
}

constexpr int most_operations = 4096;                  // of a value that a plan makes

bool fills(const Statement& s, TensorId id) {
  return std::holds_alternative<TensorId>(s.fill) && std::get<TensorId>(s.fill) == id;
}

void remove(Program& program, const std::vector<bool>& gone) {
  std::vector<poly::Node> kept;
  for (std::size_t n = 0; n < gone.size(); ++n)
    if (!gone[n]) kept.push_back(std::move(program.nodes[n]));
  program.nodes = std::move(kept);
}

// On a GPU: elementwise results of rows that statements would share (share.h), of which shared memory does not hold
// all. A row has one of what its statements find of it, as a maximum. The lightest are computed again where they are
// read, which costs no memory.
std::set<TensorId> beyond_shared(const Program& program, const Target& target) {
  struct Kept { TensorId tensor; double bytes; int weight; };
  std::map<double, std::vector<Kept>> by_rows;
  std::set<TensorId> computed;
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s) continue;
    const double all = elements(program, s->target.tensor);
    double rows = all;
    for (const Access& read : s->reads)
      if (computed.contains(read.tensor) && reads_at_row(*s, read))
        rows = std::min(rows, elements(program, read.tensor));
    if (rows >= model::shared_rows_of_a_multiprocessor * target.multiprocessors && rows < all &&
        !is_output(program, s->target.tensor) && elementwise(program, *s))
      by_rows[rows].push_back(
          {s->target.tensor, all / rows * lang::bytes(program.tensor(s->target.tensor).dtype), weight(s->value)});
    computed.insert(s->target.tensor);
  }
  std::set<TensorId> found;
  const std::map<TensorId, LongRow> operands = rows_to_keep(program, target);
  for (auto& [rows, kept] : by_rows) {
    std::ranges::stable_sort(kept, {}, &Kept::weight);
    double bytes = 0;
    for (const auto& [tensor, row] : operands)
      if (elements(program, tensor) / row.elements == rows) bytes += row.bytes;
    for (const Kept& one : kept) bytes += one.bytes;
    for (const Kept& one : kept) {
      if (bytes <= shared_for_rows(target)) break;
      found.insert(one.tensor);
      bytes -= one.bytes;
    }
  }
  return found;
}

// Whether the consumer is elementwise too, and computes each element from that one of the producer's.
bool goes_on_from(const Program& program, const Statement& consumer, TensorId id) {
  return elementwise(program, consumer) && !fills(consumer, id) &&
      std::ranges::all_of(consumer.reads, [&](const Access& read) {
        return read.tensor != id || read.element == consumer.target.element;
      });
}

bool fits_a_chain(const Statement& s) {
  return s.reads.size() <= model::most_reads_of_chain && poly::parts(s.value).size() <= model::largest_of_chain &&
      poly::length(s.value) <= most_operations;
}

// On a GPU: a value of any weight that only the next statement of a chain reads, element by element. A thread has it in
// a register, where statements that share rows would have it in shared memory, between two barriers; equal parts of a
// value are computed once. From the last to the first: a value with two readers has one when they are one statement.
void inline_chains(Rewriting& r) {
  Program& program = r.program;
  std::vector<bool> gone(program.nodes.size(), false);
  std::vector<std::set<std::size_t>> readers(program.tensors.size());
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    for (const TensorId id : autodiff::operands(program.nodes[n])) readers[static_cast<std::size_t>(id)].insert(n);
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    const auto* producer = std::get_if<Statement>(&program.nodes[n]);
    if (!producer || is_output(program, producer->target.tensor) || !elementwise(program, *producer)) continue;
    const TensorId id = producer->target.tensor;
    const std::set<std::size_t> users = readers[static_cast<std::size_t>(id)];
    if (users.size() != 1) continue;
    const auto* consumer = std::get_if<Statement>(&program.nodes[*users.begin()]);
    if (!consumer || !goes_on_from(program, *consumer, id)) continue;
    const Statement taken = *producer;
    Statement one = inlined(program, taken, *consumer);
    one.value = poly::interned(one.value);
    if (!fits_a_chain(one)) continue;
    program.nodes[*users.begin()] = std::move(one);
    for (const Access& read : taken.reads) {
      readers[static_cast<std::size_t>(read.tensor)].erase(n);
      readers[static_cast<std::size_t>(read.tensor)].insert(*users.begin());
    }
    gone[n] = true;
    r.done.push_back(directives::Inline{target_name(program, taken)});
  }
  remove(program, gone);
}

// Whether it is one value for all elements or for many, which no launch shares with them: not at the rows of the
// consumer, where a block of threads has it once (share.h).
bool scales_elements(const Program& program, const Statement& producer, const Statement& consumer) {
  const TensorId id = producer.target.tensor;
  return elementwise(program, consumer) && !fills(consumer, id) &&
      points(consumer) >= model::threads::elements_of_a_value * elements(program, id) &&
      std::ranges::none_of(consumer.reads,
          [&](const Access& read) { return read.tensor == id && reads_at_row(consumer, read); });
}

// Puts the elementwise statement at n into all that read it and are not gone, if each of them takes it. False: one does
// not, or there are none.
bool goes_into_readers(Rewriting& r, std::size_t n, const std::vector<bool>& gone,
    const std::function<bool(const Program&, const Statement&, const Statement&)>& takes) {
  Program& program = r.program;
  const Statement taken = std::get<Statement>(program.nodes[n]);
  std::map<std::size_t, Statement> with;
  for (std::size_t u = n + 1; u < program.nodes.size(); ++u) {
    if (gone[u] || !reads(program.nodes[u], taken.target.tensor)) continue;
    const auto* consumer = std::get_if<Statement>(&program.nodes[u]);
    if (!consumer || !takes(program, taken, *consumer)) return false;
    Statement one = inlined(program, taken, *consumer);
    one.value = poly::interned(one.value);
    if (!fits_a_chain(one)) return false;
    with.emplace(u, std::move(one));
  }
  if (with.empty()) return false;
  for (auto& [u, one] : with) program.nodes[u] = std::move(one);
  r.done.push_back(directives::Inline{target_name(program, taken)});
  return true;
}

// On a GPU: what is computed of few values for many elements, as the quotient of a mean or a power of the number of
// steps. Threads that wait for memory compute it beside that, in less time than a launch takes.
void inline_few(Rewriting& r) {
  Program& program = r.program;
  std::vector<bool> gone(program.nodes.size(), false);
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    const auto* producer = std::get_if<Statement>(&program.nodes[n]);
    if (!producer || is_output(program, producer->target.tensor) || !elementwise(program, *producer) ||
        weight(producer->value) > model::threads::heaviest_again)
      continue;
    gone[n] = goes_into_readers(r, n, gone, scales_elements);
  }
  remove(program, gone);
}

// On a GPU: a result that elementwise statements of its own elements read on is computed again in these, for a thread
// has its operands in the first cache, and the result on its way to memory. They then need not be behind it, and one
// launch has all that read the same (choose/row_sets.cpp).
void compute_results_again(Rewriting& r) {
  Program& program = r.program;
  const std::vector<bool> none_gone(program.nodes.size(), false);
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto* producer = std::get_if<Statement>(&program.nodes[n]);
    if (!producer || !is_output(program, producer->target.tensor) || !elementwise(program, *producer) ||
        producer->target.element.empty() || weight(producer->value) > model::threads::heaviest_again)
      continue;
    goes_into_readers(r, n, none_gone, [](const Program& all, const Statement& made, const Statement& consumer) {
      return goes_on_from(all, consumer, made.target.tensor);
    });
  }
}

}  // namespace

void inline_elementwise(Rewriting& r) {
  Program& program = r.program;
  std::vector<std::vector<std::size_t>> readers(program.tensors.size());  // a node may have ceased to be one
  const auto note = [&](std::size_t n) {
    for (const TensorId id : autodiff::operands(program.nodes[n])) readers[static_cast<std::size_t>(id)].push_back(n);
  };
  for (std::size_t n = 0; n < program.nodes.size(); ++n) note(n);
  std::vector<bool> gone(program.nodes.size(), false);
  const std::set<TensorId> too_long = has_threads(r.target) ? beyond_shared(program, r.target) : std::set<TensorId>();
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto* producer = std::get_if<Statement>(&program.nodes[n]);
    if (!producer || is_output(program, producer->target.tensor) || !elementwise(program, *producer)) continue;
    const bool again = too_long.contains(producer->target.tensor), cores = r.target.capability >= 80,
               narrow = cores && widens(program, *producer), scaled = cores && scales_narrow(program, *producer);
    std::set<std::size_t> users;
    bool possible = true;
    for (const std::size_t u : readers[static_cast<std::size_t>(producer->target.tensor)]) {
      if (gone[u] || !reads(program.nodes[u], producer->target.tensor)) continue;
      const auto* consumer = std::get_if<Statement>(&program.nodes[u]);
      possible = possible && consumer && !fills(*consumer, producer->target.tensor) &&
          (again ? fits_inlined(*producer, *consumer) && points(*consumer) <= elements(program, producer->target.tensor)
                 : ((narrow || (scaled && sums_multiples(*consumer, producer->target.tensor))) &&
                       fits_inlined(*producer, *consumer)) ||
                      worth_inlining(program, *producer, *consumer));
      users.insert(u);
    }
    if (!possible || users.empty() || (!again && !scaled && users.size() > 1 && weight(producer->value) > model::light))
      continue;
    const Statement taken = *producer;
    for (const std::size_t u : users) {
      program.nodes[u] = inlined(program, taken, std::get<Statement>(program.nodes[u]));
      note(u);
    }
    gone[n] = true;
    r.done.push_back(directives::Inline{target_name(program, taken)});
  }
  remove(program, gone);
  if (!has_threads(r.target)) return;
  inline_chains(r);
  inline_few(r);
  compute_results_again(r);
}

Refusal apply(Rewriting& r, const directives::Inline& directive) {
  Program& program = r.program;
  const auto n = statement_of(program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const Statement producer = std::get<Statement>(program.nodes[*n]);
  const TensorId id = producer.target.tensor;
  if (is_output(program, id) && !elementwise(program, producer))
    return fmt::format("`{}` is an output", directive.tensor);
  if (!elementwise(program, producer))
    return fmt::format("`{}` is not computed for each of its elements by itself", directive.tensor);
  std::vector<std::size_t> users;
  for (std::size_t u = 0; u < program.nodes.size(); ++u) {
    if (!reads(program.nodes[u], id)) continue;
    const auto* consumer = std::get_if<Statement>(&program.nodes[u]);
    if (!consumer || fills(*consumer, id)) return fmt::format("what reads `{}` needs it in memory", directive.tensor);
    const auto uses = static_cast<int>(std::count_if(
        consumer->reads.begin(), consumer->reads.end(), [&](const Access& read) { return read.tensor == id; }));
    if (nodes(producer.value) * uses + nodes(consumer->value) > most_operations)
      return fmt::format(
          "`{}` would be a value of more than {} operations", target_name(program, *consumer), most_operations);
    users.push_back(u);
  }
  if (users.empty() && is_output(program, id)) return fmt::format("`{}` is an output", directive.tensor);
  if (users.empty()) return fmt::format("nothing reads `{}`", directive.tensor);
  for (const std::size_t u : users)
    program.nodes[u] = inlined(program, producer, std::get<Statement>(program.nodes[u]));
  if (!is_output(program, id)) program.nodes.erase(program.nodes.begin() + static_cast<std::ptrdiff_t>(*n));
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace tilec::codegen
