// Statements of a kernel, but for loops: values, memory, tensor cores, folds.
#include <algorithm>
#include <set>

#include "codegen/parts.h"
#include "codegen/simt/kernel.h"

namespace tilec::codegen::simt {

using lang::InternalError;

// ---- statements

void Kernel::statements(const Body& body) {
  const Scope outside = scope_;
  for (const Stmt& s : body) std::visit([&](const auto& x) { statement(x); }, s.node);
  scope_ = outside;
}

void Kernel::let(const std::string& name, const Value& value) {
  const std::string id = names_.fresh(name);
  const std::string type =
      value.type == DType::I64 ? (value.narrow ? "int" : scalars_.index()) : scalars_.type(value.type);
  say("const {} {} = {};", type, id, bare(value.text));
  scope_.variables[name] = Value{id, value.type, value.narrow, value.range, value.made, value.by};
}

void Kernel::statement(const Let& x) {
  const Value value = speller_.value(x.value, scope_);
  // nothing to compute
  if (x.value.as<Constant>() || x.value.as<Variable>() || value.text == "true" || value.text == "false")
    scope_.variables[x.name] = value;
  else let(x.name, value);
}

void Kernel::statement(const View& x) {
  Place place = place_of(x.base, scope_);
  const Value offset = speller_.converted(x.offset, DType::I64, scope_);
  if (place.space == Space::Private) {
    place.offset = place.offset ? speller_.apply(Op::Add, {*place.offset, offset}, DType::I64) : offset;
  } else {
    const std::string id = names_.fresh(x.name);
    const std::string at = fmt::format("{} + {}", place.pointer, offset.text);
    place.apart = cuda_ && x.alignment == 1;
    if (x.words) place.type = DType::U32;
    const std::string type = pointer_type(place);
    if (cuda_ && x.alignment > 1) say("{0} {1} = ({0})__builtin_assume_aligned({2}, {3});", type, id, at, x.alignment);
    else if (x.words) say("{0} {1} = ({0})({2});", type, id, at);
    else say("{} {} = {};", type, id, at);
    place.pointer = id;
  }
  scope_.places[x.name] = std::move(place);
}

void Kernel::statement(const Aligned& x) {
  const Place& place = place_of(x.view, scope_);
  if (place.space == Space::Private) throw InternalError(fmt::format("loops: `{}` has no address", x.view));
  let(x.name,
      Value{fmt::format("((({}){} & {}) == 0)", cuda_ ? "unsigned long long" : "ulong", place.pointer, x.bytes - 1),
          DType::Bool, false, {}});
}

void Kernel::statement(const Allocate& x) {
  const std::string id = names_.fresh(x.name);
  const bool is_shared = x.memory == Memory::Shared || (x.memory == Memory::Local && !in_thread_);
  if (is_shared) return shared(x, id);
  say("{} {}[{}];", scalars_.storage(x.type), id, std::max<std::int64_t>(x.count, 1));
  registers_[x.name] = x.count;
  scope_.places[x.name] = Place{id, x.type, Space::Private, false, {}, {}, false};
}

void Kernel::shared(const Allocate& x, const std::string& name) {
  Place place{name, x.type, Space::Shared, false, {}, {}, false};
  const std::int64_t count = std::max<std::int64_t>(x.count, 1);
  if (pooled_) {
    say("{0} {1} = ({0})(tc_pool + {3}{2});", pointer_type(place), name, pool_used_, pool_of_warp_);
    pool_used_ += (element_bytes(x) + 15) / 16 * 16;
  } else if (cuda_) {
    declarations_ +=
        fmt::format("  __shared__ __align__({}) {} {}[{}];\n", alignment(), scalars_.storage(x.type), name, count);
  } else {
    declarations_ +=
        fmt::format("  __local {} {}[{}] __attribute__((aligned(16)));\n", scalars_.storage(x.type), name, count);
  }
  scope_.places[x.name] = std::move(place);
}

void Kernel::statement(const Store& x) {
  const Place& place = place_of(x.view, scope_);
  const std::string to = speller_.element(x.view, x.offset, scope_);
  std::string value = bare(speller_.converted(x.value, place.type, scope_).text);
  const bool one = threads_ > 1 && !in_thread_ && place.space != Space::Private;  // all threads are here
  say("{}{} = {};", one ? fmt::format("if ({} == 0) ", tid()) : "", to, value);
}

void Kernel::statement(const If& x) {
  const std::string condition = speller_.condition(x.condition, scope_);
  if (condition == "true") {
    open(""), statements(x.then), close();
    return;
  }
  if (condition == "false") { if (!x.otherwise.empty()) { open(""), statements(x.otherwise), close(); } return; }
  open(fmt::format("if ({})", condition));
  statements(x.then);
  if (!x.otherwise.empty()) {
    --depth_;
    open("} else");
    statements(x.otherwise);
  }
  close();
}

void Kernel::statement(const Barrier& x) {
  if (threads_ == 1) return;
  if (guarded_) throw InternalError(fmt::format("loops: `{}`: a Barrier that not all threads reach", function_.name));
  if (copies_) say("asm volatile(\"cp.async.wait_group %0;\" :: \"n\"({}) : \"memory\");", x.pending);
  // what this thread wrote is there for products of shared memory; of all memory the fence takes a third of the turn
  if (from_shared_) line("asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
  line(barrier());
}

// A callee's body with its names bound: its views may lie in any memory, which OpenCL's pointer types would tell apart.
void Kernel::statement(const CallStmt& x) {
  const auto callee = std::find_if(
      loops_.functions.begin(), loops_.functions.end(), [&](const Function& f) { return f.name == x.function; });
  if (callee == loops_.functions.end()) throw InternalError(fmt::format("loops: no function `{}`", x.function));
  Scope inner;
  for (const Table& t : loops_.tables) inner.places[t.name] = place_of(t.name, scope_);
  for (std::size_t i = 0; i < callee->views.size(); ++i)
    inner.places[callee->views[i].name] = place_of(x.views[i], scope_);
  open("");
  const Scope outside = scope_;
  for (std::size_t i = 0; i < callee->integers.size(); ++i) {
    statement(Let{callee->integers[i], x.integers[i]});
    inner.variables[callee->integers[i]] = scope_.variables[callee->integers[i]];
    scope_ = outside;
  }
  scope_ = std::move(inner);
  statements(callee->body);
  scope_ = outside;
  close();
}

// ---- tensor cores

void Kernel::on_tensor_cores(const std::string& what) const {
  if (!cuda_) throw InternalError(fmt::format("loops: `{}`: {} in OpenCL", function_.name, what));
}

void Kernel::statement(const Copy& x) {
  on_tensor_cores("a copy to `" + x.to + "`");
  const bool some = x.there.type() != DType::Bool;
  const std::string helper = ptx_.copy(place_of(x.from, scope_).type, x.count, some);
  say("{}(&{}, &{}, {});", helper, speller_.element(x.to, x.at, scope_), speller_.element(x.from, x.offset, scope_),
      some ? bare(speller_.value(x.there, scope_).text) : speller_.condition(x.there, scope_));
}

void Kernel::statement(const Fragment& x) {
  on_tensor_cores("the fragment `" + x.name + "`");
  say("{}(&{}, &{});", ptx_.fragment(place_of(x.name, scope_).type, x.transposed),
      speller_.element(x.name, Expr(x.first), scope_), speller_.element(x.view, x.offset, scope_));
}

void Kernel::statement(const Pack& x) {
  on_tensor_cores("the fragment `" + x.name + "`");
  say("{}(&{}, {}, {}, {});", ptx_.pack(x.type, x.parts), speller_.element(x.name, Expr(x.at), scope_), x.step,
      bare(speller_.value(x.low, scope_).text), bare(speller_.value(x.high, scope_).text));
}

void Kernel::statement(const Exchange& x) {
  on_tensor_cores("the exchange of `" + x.name + "`");
  say("{}(&{});", ptx_.exchange(), speller_.element(x.name, Expr(x.at), scope_));
}

void Kernel::statement(const StorePacked& x) {
  on_tensor_cores("the packed `" + x.name + "`");
  say("{}(&{}, &{});", ptx_.store_packed(place_of(x.view, scope_).type, x.words),
      speller_.element(x.view, x.offset, scope_), speller_.element(x.name, Expr(x.at), scope_));
}

void Kernel::statement(const Multiply& x) {
  on_tensor_cores("the fragment `" + x.c + "`");
  const auto at = [&](const std::string& name, std::int64_t first) {
    return "&" + speller_.element(name, Expr(first), scope_);
  };
  say("{}({}, {}, {});", ptx_.multiply(*x.instruction), at(x.c, x.at_c), at(x.a, x.at_a), at(x.b, x.at_b));
}

void Kernel::statement(const MultiplyShared& x) {
  on_tensor_cores("the product `" + x.c + "`");
  const bool a_in_registers = place_of(x.a.view, scope_).space == Space::Private;
  const std::string matrix = ptx_.matrix();
  std::set<std::int64_t> begun;
  // Constants stay constants behind the address of the whole array, which is found once, outside of loops.
  const auto at = [&](const SharedMatrix& m, const Expr& begin) {
    const auto [where, more] = constant_apart(begin);
    const std::int64_t of_piece = piece_bytes / lang::bytes(place_of(m.view, scope_).type);
    const std::string pieces = speller_.value(quotient(where, of_piece), scope_).text;
    return fmt::format("{}(&{}, {}, {} + {})", matrix, speller_.element(m.view, Expr(std::int64_t{0}), scope_), m.panel,
        pieces, more / of_piece);
  };
  line("asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
  const auto a_transposed = a_in_registers ? std::nullopt : std::optional(x.a.transposed);
  for (const SharedProduct& p : x.products) {
    const bool begins = x.begins && begun.insert(p.at_c).second;
    const std::string a = a_in_registers ? "&" + speller_.element(x.a.view, p.a, scope_) : at(x.a, p.a);
    say("{}(&{}, {}, {});",
        ptx_.multiply_shared(*x.instruction, x.columns, a_transposed, x.b.transposed, begins),
        speller_.element(x.c, Expr(p.at_c), scope_), a, at(x.b, p.b));
  }
  line("asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
}

void Kernel::statement(const Await& x) {
  on_tensor_cores("the product `" + x.c + "`");
  if (x.pending && !x.count)
    return say("asm volatile(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"({}) : \"memory\");", x.pending);
  const Place& c = place_of(x.c, scope_);
  const std::int64_t count = x.count ? x.count : registers_.at(x.c);
  say("{}(&{});", ptx_.await(c.type, count, x.pending), speller_.element(x.c, Expr(x.at), scope_));
}

// ---- folds

std::string Kernel::combine(Aggregation how, DType type, const std::string& a, const std::string& b) {
  switch (how) {
    case Aggregation::Sum: return scalars_.apply(Op::Add, type, {a, b});
    case Aggregation::Product: return scalars_.apply(Op::Mul, type, {a, b});
    case Aggregation::Max: return scalars_.apply(Op::Max, type, {a, b});
    case Aggregation::Min: return scalars_.apply(Op::Min, type, {a, b});
    case Aggregation::Assign: break;
  }
  throw InternalError("loops: a Fold by assignment");
}

// One scratch array per type and kernel; the barrier that opens each Fold separates it from the one before.
const std::string& Kernel::fold_memory(DType type) {
  std::string& name = folds_[scalars_.storage(type)];
  if (!name.empty()) return name;
  name = names_.fresh("fold_" + std::string(lang::name(type)));
  declarations_ += fmt::format("  {} {} {}[{}];\n", cuda_ ? "__shared__" : "__local", scalars_.storage(type), name,
      by_warps() ? threads_ / 32 : threads_);
  return name;
}

void Kernel::statement(const Fold& x) {
  const Value value = speller_.value(x.value, scope_);
  const Value over = speller_.value(Variable{x.over, DType::I64}, scope_);
  const std::string type = value.type == DType::I64 ? scalars_.index() : scalars_.type(value.type);
  const std::string result = names_.fresh(x.name);
  if (guarded_ || threads_ == 1) {                     // guarded: the one thread of a Thread loop of extent 1
    say("const {} {} = {};", type, result, bare(value.text));
  } else if (over.range && over.range->high + 1 != threads_) {
    throw InternalError(fmt::format("loops: `{}`: a Fold over `{}`, which is no Thread loop", function_.name, x.over));
  } else {
    say("{} {};", type, result);
    if (x.among) say("{} = {};", result, bare(value.text)), butterfly(x, value.type, result, x.among);
    else if (by_warps()) fold_warps(x, value.type, result, bare(value.text));
    else fold_tree(x, value.type, result, bare(value.text));
  }
  scope_.variables[x.name] = Value{result, value.type, false, {}};
}

// s[t] ⊕ s[t + h] for h = 128, 64, … 1: the tree depends on the number of threads only.
void Kernel::fold_tree(const Fold& x, DType type, const std::string& result, const std::string& value) {
  const std::string& memory = fold_memory(type);
  std::int64_t half = 1;
  while (half * 2 < threads_) half *= 2;
  const std::string read = type == DType::Bool ? " != 0" : "";
  open("");
  say("const int tc_t = {};", tid());
  line(barrier());
  say("{}[tc_t] = {};", memory, value);
  line(barrier());
  open(fmt::format("for (int tc_h = {}; tc_h > 0; tc_h >>= 1)", half));
  const std::string a = fmt::format("({}[tc_t]{})", memory, read), b = fmt::format("({}[tc_t + tc_h]{})", memory, read);
  say("if (tc_t < tc_h && tc_t + tc_h < {}) {}[tc_t] = {};", threads_, memory, bare(combine(x.how, type, a, b)));
  line(barrier());
  close();
  say("{} = {}[0]{};", result, memory, read);
  close();
}

void Kernel::butterfly(const Fold& x, DType type, const std::string& result, std::int64_t lanes) {
  if (!by_warps())
    throw InternalError(fmt::format("loops: `{}`: `{}` is folded among threads of a warp", function_.name, x.name));
  const bool widened = lang::bits(type) < 32;          // shuffles move 32 or 64 bits
  line("#pragma unroll");
  open(fmt::format("for (int tc_h = {}; tc_h > 0; tc_h >>= 1)", lanes / 2));
  // By all lanes, also where `&&` is decided without it.
  say("const {0} tc_o = ({0})__shfl_xor_sync(0xffffffffu, {1}{2}, tc_h);", scalars_.type(type), widened ? "(int)" : "",
      result);
  say("{} = {};", result, bare(combine(x.how, type, result, "tc_o")));
  close();
}

// A butterfly within each warp leaves the same bits in all its lanes, because ⊕ commutes; then warp 0, 1, … in order.
void Kernel::fold_warps(const Fold& x, DType type, const std::string& result, const std::string& value) {
  say("{} = {};", result, value);
  butterfly(x, type, result, 32);
  if (threads_ == 32) return;
  const std::string& memory = fold_memory(type);
  const std::string read = type == DType::Bool ? " != 0" : "";
  line(barrier());
  say("if (({0} & 31) == 0) {1}[{0} >> 5] = {2};", tid(), memory, result);
  line(barrier());
  say("{} = {}[0]{};", result, memory, read);
  line("#pragma unroll");
  say("for (int tc_w = 1; tc_w < {}; ++tc_w) {} = {};", threads_ / 32, result,
      bare(combine(x.how, type, result, fmt::format("({}[tc_w]{})", memory, read))));
}

}  // namespace tilec::codegen::simt
