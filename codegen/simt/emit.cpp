// Prints the nest of Loops as a kernel. Every thread runs the text below the Block loops; what stands outside a Thread
// loop is run by all of them alike, so there only the stores to memory need one thread chosen.
//
//   for i in block 64                                   {
//     shared s f32[128]                                   __shared__ float s[128];   (at the top of the kernel)
//     for t in thread 128                    ⇒            const int i = (int)blockIdx.x;
//       register m f32[1]                                 { float m[1]; … tc_fold over all 128 threads … }
//       fold mx = max m[0] over t                       }
//
// Names get a C identifier each, unique in the kernel, so scopes of Loops need no scopes of C.
#include "codegen/simt/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "codegen/simt/grid.h"
#include "codegen/simt/names.h"
#include "codegen/simt/value.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::simt {
namespace {

using lang::InternalError;

// What every kernel of a translation unit shares.
struct Unit {
  explicit Unit(Dialect d) : dialect(d), scalars(d) {}
  Dialect dialect;
  Scalars scalars;
  Identifiers globals;                                 // kernels and tables
  std::string tables, kernels;
};

class Kernel {
 public:
  Kernel(Unit& unit, const Loops& loops)
      : unit_(unit),
        scalars_(unit.scalars),
        speller_(unit.scalars),
        loops_(loops),
        function_(loops.functions.back()),
        cuda_(unit.dialect == Dialect::Cuda),
        copies_(has_copies(function_.body)),
        from_shared_(multiplies_shared(function_.body)),
        threads_(threads_of(function_.body)),
        grid_(grid_of(function_.body)),
        names_(unit.globals) {}

  std::string text();

 private:
  void line(const std::string& words) { fmt::format_to(std::back_inserter(body_), "{:{}}{}\n", "", depth_ * 2, words); }
  void open(const std::string& words) { line(words.empty() ? "{" : words + " {"); ++depth_; }
  void close(const std::string& words = "") { --depth_; line(words.empty() ? "}" : "} " + words); }
  template <class... Arguments>
  void say(fmt::format_string<Arguments...> words, Arguments&&... arguments) {
    line(fmt::format(words, std::forward<Arguments>(arguments)...));
  }

  std::string alone(const ViewParameter& v) const;
  std::string signature();
  void parameters();
  void tables();
  void shared_pool();

  void statements(const Body& body);
  void blocks(const Body& body, const std::string& number);
  void block(const For& loop, const std::string& number);
  void top();

  void statement(const For& x);
  void statement(const If& x);
  void statement(const Let& x);
  void statement(const View& x);
  void statement(const Aligned& x);
  void statement(const Allocate& x);
  void statement(const Store& x);
  void statement(const Fold& x);
  void statement(const Barrier& x);
  void statement(const Prefetch&) {}                   // a hint; GPUs hide latency by their threads
  void statement(const Transpose& x) { throw lang::InternalError("`" + x.name + "` is transposed by threads"); }
  void statement(const Interleave& x) { throw lang::InternalError("`" + x.name + "` is interleaved by threads"); }
  void statement(const FoldRows& x) { throw lang::InternalError("rows of `" + x.name + "` are folded by threads"); }
  void statement(const CallStmt& x);
  void statement(const Copy& x);
  void statement(const Commit&) {
    on_tensor_cores("a group of copies"), line("asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
  }
  void statement(const Fragment& x);
  void statement(const Pack& x);
  void statement(const Multiply& x);
  void statement(const MultiplyShared& x);
  void statement(const Await& x);
  void on_tensor_cores(const std::string& what) const {
    if (!cuda_) throw InternalError(fmt::format("loops: `{}`: {} in OpenCL", function_.name, what));
  }

  void thread(const For& x);
  void loop(const For& x);
  void let(const std::string& name, const Value& value);
  void shared(const Allocate& x, const std::string& name);
  int alignment() const { return from_shared_ ? 1024 : 16; }  // of shared memory: a swizzle of 128 bytes repeats after
                                                              // 8 rows
  std::string qualifier(Space space) const;
  std::string pointer_type(const Place& place) const;
  std::string tid() const { return cuda_ ? "(int)threadIdx.x" : "(int)get_local_id(0)"; }
  std::string group(int axis) const {
    return cuda_ ? fmt::format("blockIdx.{}", "xyz"[axis]) : fmt::format("get_group_id({})", axis);
  }
  std::string barrier() const {
    return cuda_ ? "__syncthreads();" : "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
  }
  std::string combine(Aggregation how, DType type, const std::string& a, const std::string& b);
  void fold_tree(const Fold& x, DType type, const std::string& result, const std::string& value);
  void fold_warps(const Fold& x, DType type, const std::string& result, const std::string& value);
  void butterfly(const Fold& x, DType type, const std::string& result, std::int64_t lanes);
  bool by_warps() const { return cuda_ && threads_ % 32 == 0; }
  const std::string& fold_memory(DType type);

  Unit& unit_;
  Scalars& scalars_;
  Speller speller_;
  const Loops& loops_;
  const Function& function_;
  bool cuda_, copies_, from_shared_;                   // some copies, and some products of shared memory, are
                                                       // asynchronous
  std::int64_t threads_;
  Grid grid_;
  Identifiers names_;
  Scope scope_;
  std::string body_, declarations_;                    // declarations_: shared memory, at the top of the kernel
  int depth_ = 1;
  bool in_thread_ = false, below_block_ = false, guarded_ = false;
  bool pooled_ = false;                                // shared arrays of siblings overlay each other, or exceed what a
                                                       // kernel may declare
  std::int64_t pool_used_ = 0;
  std::map<std::string, std::int64_t> registers_;      // of each array
  std::map<std::string, std::string> folds_;           // storage type → scratch array
};

// ---- the kernel as a whole

std::string Kernel::text() {
  tables();
  const std::string head = signature();
  parameters();
  shared_pool();
  top();
  return fmt::format("{} {{\n{}{}}}\n", head, declarations_, body_);
}

std::string Kernel::qualifier(Space space) const {
  if (cuda_ || space == Space::Private) return "";
  return space == Space::Global ? "__global " : space == Space::Shared ? "__local " : "__constant ";
}

// volatile: of an aligned access on one branch and single ones on the other, the compiler would make single ones for
// both.
std::string Kernel::pointer_type(const Place& place) const {
  const bool is_table = place.space == Space::Constant;
  const std::string element = is_table ? (place.narrow ? "int" : scalars_.index()) : scalars_.storage(place.type);
  return fmt::format("{}{}{}{}*", qualifier(place.space), place.constant && (cuda_ || !is_table) ? "const " : "",
      place.apart ? "volatile " : "", element);
}

// What threads write for each other is not said to be reached by one pointer alone: NVRTC reads it before the barrier
// then, as no call that does not get the pointer could change it.
std::string Kernel::alone(const ViewParameter& v) const {
  if (v.direction == Direction::InOut && synchronises(function_.body)) return "";
  return cuda_ ? "__restrict__ " : "restrict ";
}

std::string Kernel::signature() {
  std::vector<std::string> list;
  for (const ViewParameter& v : function_.views) {
    Place place{names_.fresh(v.name), v.type, Space::Global, v.direction == Direction::In, {}, {}, false};
    list.push_back(fmt::format("{} {}{}", pointer_type(place), alone(v), place.pointer));
    scope_.places[v.name] = std::move(place);
  }
  for (const std::string& name : function_.integers) {
    const Value value{names_.fresh(name), DType::I64, false, {}};
    list.push_back(fmt::format("const {} {}", cuda_ ? "long long" : "long", value.text));
    scope_.variables[name] = value;
  }
  const std::string name = symbol(function_.name);
  const std::string shape = grid_.chained
      ? fmt::format("{} x {} x {}", grid_.extent[0], grid_.extent[1], grid_.extent[2])
      : fmt::format("{}", grid_.blocks);
  const std::string comment = fmt::format("\n// {} blocks of {} threads\n", shape, threads_);
  if (cuda_)
    return fmt::format(
        "{}extern \"C\" __global__ void __launch_bounds__({}) {}({})", comment, threads_, name, fmt::join(list, ", "));
  return fmt::format("{}__kernel __attribute__((reqd_work_group_size({}, 1, 1))) void {}({})", comment, threads_, name,
      fmt::join(list, ", "));
}

// An aligned pointer lets the compiler join loads of neighbours into one of 16 bytes.
void Kernel::parameters() {
  if (!cuda_) return;
  for (const ViewParameter& v : function_.views) {
    Place& place = scope_.places[v.name];
    if (v.alignment <= lang::bytes(v.type)) continue;
    const std::string raw = place.pointer;
    place.pointer = names_.fresh(v.name);
    say("{} {}{} = ({})__builtin_assume_aligned({}, {});", pointer_type(place), alone(v), place.pointer,
        pointer_type(place), raw, v.alignment);
  }
}

// Small tables live in constant memory, whose 64 KB all kernels share; the others in global memory.
void Kernel::tables() {
  for (const Table& t : loops_.tables) {
    const auto [low, high] = std::minmax_element(t.values.begin(), t.values.end());
    Place place{unit_.globals.fresh(t.name), DType::I64, Space::Constant, true, {}, {}, false};
    names_ = unit_.globals;
    if (!t.values.empty()) {
      place.elements = Interval{*low, *high};
      place.narrow = fits_int(*place.elements);
    }
    const bool small = t.values.size() * (place.narrow ? 4 : 8) <= 4096;
    std::vector<std::string> values;
    for (std::int64_t v : t.values) values.push_back(bare(scalars_.integer(v, place.narrow)));
    if (values.empty()) values.push_back("0");
    fmt::format_to(std::back_inserter(unit_.tables), "{} {}{} {}[{}] = {{{}}};\n",
        cuda_ ? (small ? "static __constant__" : "static __device__") : "__constant", cuda_ ? "const " : "",
        place.narrow ? "int" : scalars_.index(), place.pointer, values.size(), fmt::join(values, ", "));
    scope_.places[t.name] = std::move(place);
  }
}

void Kernel::shared_pool() {
  const std::int64_t bytes = shared_bytes(function_.body);
  const auto uses = [](const Stmt& s) {
    return std::holds_alternative<For>(s.node) && shared_bytes(std::get<For>(s.node).body) > 0;
  };
  const bool siblings =
      std::count_if(function_.body.begin(), function_.body.end(), uses) > 1 || (!grid_.chained && bytes > 0);
  const bool dynamic = cuda_ && bytes + fold_bytes(function_.body, by_warps()) > static_shared_limit;
  pooled_ = bytes > 0 && (siblings || dynamic);
  if (!pooled_) return;
  if (dynamic)
    declarations_ += fmt::format("  extern __shared__ __align__({}) unsigned char tc_pool[];\n", alignment());
  else if (cuda_)
    declarations_ += fmt::format("  __shared__ __align__({}) unsigned char tc_pool[{}];\n", alignment(), bytes);
  else declarations_ += fmt::format("  __local unsigned char tc_pool[{}] __attribute__((aligned(16)));\n", bytes);
}

// ---- blocks

void Kernel::top() {
  if (!has_block(function_.body)) return statements(function_.body);
  if (grid_.chained) return blocks(function_.body, "");
  const std::string g = names_.fresh("block_number");
  const std::string linear = grid_.extent[1] == 1
      ? group(0)
      : fmt::format("{} + ({}){} * {}", group(0), scalars_.unsigned_index(), group(1), grid_.extent[0]);
  say("const {0} {1} = ({0})({2});", grid_.blocks <= axis_limit[0] ? "int" : scalars_.index(), g, linear);
  if (grid_.extent[1] > 1)
    say("if ({} >= {}) return;", g, scalars_.integer(grid_.blocks, grid_.blocks <= axis_limit[0]));
  blocks(function_.body, g);
}

// The Block loops of one level. `number`: of the block within this level; empty when each loop has an axis.
void Kernel::blocks(const Body& body, const std::string& number) {
  std::int64_t first = 0, left = 0;
  for (const Stmt& s : body) {
    const For* loop = std::get_if<For>(&s.node);
    if (loop && loop->kind == Kind::Block) left += constant_extent(*loop) * blocks_of(loop->body);
  }
  for (const Stmt& s : body) {
    const For* loop = std::get_if<For>(&s.node);
    if (!loop || loop->kind != Kind::Block) {
      const bool quiet = std::holds_alternative<Let>(s.node) || std::holds_alternative<View>(s.node) ||
          std::holds_alternative<Allocate>(s.node);
      if (!quiet && has_block(body))
        throw InternalError(fmt::format("loops: `{}`: a statement beside Block loops", function_.name));
      std::visit([&](const auto& x) { statement(x); }, s.node);
      continue;
    }
    const std::int64_t here = constant_extent(*loop) * blocks_of(loop->body);
    if (here == 0) continue;
    left -= here;
    const Scope outside = scope_;
    const std::int64_t pool = pool_used_;
    if (number.empty()) {
      block(*loop, number);
    } else {
      open(left == 0 && first == 0 ? ""
              : left == 0          ? "else"
                                   : fmt::format("{}if ({} < {})", first == 0 ? "" : "else ", number, first + here));
      std::string own = number;
      if (first != 0) {
        own = names_.fresh("block_number");
        say("const {} {} = {} - {};", grid_.blocks <= axis_limit[0] ? "int" : scalars_.index(), own, number, first);
      }
      block(*loop, own);
      close();
    }
    first += here;
    scope_ = outside;
    pool_used_ = pool;
  }
}

void Kernel::block(const For& loop, const std::string& number) {
  const std::int64_t extent = constant_extent(loop), inner = blocks_of(loop.body);
  const bool narrow = extent <= axis_limit[0];
  const std::string type = narrow ? "int" : scalars_.index(), name = names_.fresh(loop.index);
  std::string rest = number;
  if (number.empty()) {
    int depth = 0;                                     // Block loops below this one
    for (const Body* body = &loop.body; has_block(*body); ++depth) {
      body =
          &std::get<For>(std::find_if(body->begin(), body->end(),
                             [](const Stmt& s) {
                               return std::holds_alternative<For>(s.node) && std::get<For>(s.node).kind == Kind::Block;
                             })
                             ->node)
               .body;
    }
    say("const {0} {1} = ({0}){2};", type, name, group(depth));
  } else if (inner == 1) {
    say("const {0} {1} = ({0}){2};", type, name, number);
  } else {
    say("const {0} {1} = ({0})({2} / {3});", type, name, number, inner);
    if (has_block(loop.body)) {
      rest = names_.fresh("block_number");
      say("const {} {} = {} % {};", grid_.blocks <= axis_limit[0] ? "int" : scalars_.index(), rest, number, inner);
    }
  }
  scope_.variables[loop.index] = Value{name, DType::I64, narrow, Interval{0, extent - 1}};
  if (has_block(loop.body)) {
    // number 0 of 1 for loops all of extent 1
    return blocks(loop.body, rest);
  }
  const bool alone = threads_ > 1 && !has_thread(loop.body);  // the work of one thread, beside siblings that use more
  if (alone && synchronises(loop.body))
    throw InternalError(fmt::format("loops: `{}`: a Barrier or Fold outside Thread", function_.name));
  const bool outer = below_block_;
  below_block_ = true;
  if (alone) {
    open(fmt::format("if ({} == 0)", tid()));
    in_thread_ = true;
    statements(loop.body);
    in_thread_ = false;
    close();
  } else {
    statements(loop.body);
  }
  below_block_ = outer;
}

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
    const std::string type = pointer_type(place);
    if (cuda_ && x.alignment > 1) say("{0} {1} = ({0})__builtin_assume_aligned({2}, {3});", type, id, at, x.alignment);
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
    say("{0} {1} = ({0})(tc_pool + {2});", pointer_type(place), name, pool_used_);
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
  if (x.to_tf32) on_tensor_cores("a store of TF32"), value = scalars_.to_tf32(value);
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

// ---- tensor cores

void Kernel::statement(const Copy& x) {
  on_tensor_cores("a copy to `" + x.to + "`");
  const std::string helper = scalars_.copy(place_of(x.from, scope_).type, x.count);
  say("{}(&{}, &{}, {});", helper, speller_.element(x.to, x.at, scope_), speller_.element(x.from, x.offset, scope_),
      speller_.condition(x.there, scope_));
}

void Kernel::statement(const Fragment& x) {
  on_tensor_cores("the fragment `" + x.name + "`");
  say("{}(&{}, &{});", scalars_.fragment(place_of(x.name, scope_).type, x.transposed),
      speller_.element(x.name, Expr(x.first), scope_), speller_.element(x.view, x.offset, scope_));
}

void Kernel::statement(const Pack& x) {
  on_tensor_cores("the fragment `" + x.name + "`");
  say("{}(&{}, {}, {}, {});", scalars_.pack(x.type, x.parts), speller_.element(x.name, Expr(x.at), scope_), x.step,
      bare(speller_.value(x.low, scope_).text), bare(speller_.value(x.high, scope_).text));
}

void Kernel::statement(const Multiply& x) {
  on_tensor_cores("the fragment `" + x.c + "`");
  const auto at = [&](const std::string& name, std::int64_t first) {
    return "&" + speller_.element(name, Expr(first), scope_);
  };
  say("{}({}, {}, {});", scalars_.multiply(*x.instruction), at(x.c, x.at_c), at(x.a, x.at_a), at(x.b, x.at_b));
}

void Kernel::statement(const MultiplyShared& x) {
  on_tensor_cores("the product `" + x.c + "`");
  const bool a_in_registers = place_of(x.a.view, scope_).space == Space::Private;
  const std::string matrix = scalars_.matrix();
  std::set<std::int64_t> begun;
  const auto at = [&](const SharedMatrix& m, const Expr& begin) {
    return fmt::format("{}(&{}, {})", matrix, speller_.element(m.view, begin, scope_), m.panel);
  };
  line("asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
  const auto a_transposed = a_in_registers ? std::nullopt : std::optional(x.a.transposed);
  for (const SharedProduct& p : x.products) {
    const bool begins = x.begins && begun.insert(p.at_c).second;
    const std::string a = a_in_registers ? "&" + speller_.element(x.a.view, p.a, scope_) : at(x.a, p.a);
    say("{}(&{}, {}, {});",
        scalars_.multiply_shared(*x.instruction, x.columns, a_transposed, x.b.transposed, begins),
        speller_.element(x.c, Expr(p.at_c), scope_), a, at(x.b, p.b));
  }
  line("asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
}

void Kernel::statement(const Await& x) {
  on_tensor_cores("the product `" + x.c + "`");
  if (x.pending)
    return say("asm volatile(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"({}) : \"memory\");", x.pending);
  const Place& c = place_of(x.c, scope_);
  say("{}(&{});", scalars_.await_all(c.type, registers_.at(x.c)), speller_.element(x.c, Expr(std::int64_t{0}), scope_));
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

// ---- loops

void Kernel::statement(const For& x) {
  switch (x.kind) {
    case Kind::Block:
      throw InternalError(fmt::format("loops: `{}`: Block loop `{}` is not at the top", function_.name, x.index));
    case Kind::Parallel:
      throw InternalError(fmt::format("loops: `{}`: Parallel loop `{}` on a GPU", function_.name, x.index));
    case Kind::Thread: return thread(x);
    case Kind::Serial: case Kind::Unroll: case Kind::Vector: return loop(x);  // a Vector is the turns of one thread
  }
}

void Kernel::thread(const For& x) {
  if (in_thread_)
    throw InternalError(fmt::format("loops: `{}`: Thread loop `{}` inside another", function_.name, x.index));
  const std::int64_t extent = constant_extent(x);
  if (extent == 0) return;
  const bool all = extent == threads_;
  if (!all && synchronises(x.body) && extent > 1)
    throw InternalError(
        fmt::format("loops: `{}`: `{}` synchronises {} of {} threads", function_.name, x.index, extent, threads_));
  const Scope outside = scope_;
  const std::string name = names_.fresh(x.index);
  open("");
  say("const int {} = {};", name, tid());
  if (!all) open(fmt::format("if ({} < {})", name, extent));
  scope_.variables[x.index] = Value{name, DType::I64, true, Interval{0, extent - 1}};
  in_thread_ = true, guarded_ = !all;
  statements(x.body);
  in_thread_ = false, guarded_ = false;
  if (!all) close();
  close();
  scope_ = outside;
}

void Kernel::loop(const For& x) {
  const Value extent = speller_.converted(x.extent, DType::I64, scope_);
  const Scope outside = scope_;
  const std::string name = names_.fresh(x.index);
  if (!x.advance.empty()) open("");
  std::string steps;
  for (const Advance& a : x.advance) {                 // a copy moves: after the loop the view is where it was
    Place place = place_of(a.view, scope_);
    const std::string id = names_.fresh(a.view), step = speller_.converted(a.step, DType::I64, outside).text;
    say("{} {} = {};", pointer_type(place), id, place.pointer);
    steps += fmt::format(", {} += {}", id, step);
    place.pointer = id;
    scope_.places[a.view] = std::move(place);
  }
  Value index{name, DType::I64, extent.narrow, {}};
  if (extent.range) index.range = Interval{0, std::max<std::int64_t>(extent.range->high - 1, 0)};
  scope_.variables[x.index] = index;
  if (x.kind != Kind::Serial) line("#pragma unroll");
  open(fmt::format(
      "for ({0} {1} = 0; {1} < {2}; ++{1}{3})", extent.narrow ? "int" : scalars_.index(), name, extent.text, steps));
  statements(x.body);
  close();
  if (!x.advance.empty()) close();
  scope_ = outside;
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

}  // namespace

// ---- translation units

std::string symbol(std::string_view name) { return identifier(name); }

std::string emit(const std::vector<const Loops*>& kernels, Dialect dialect) {
  Unit unit(dialect);
  for (const Loops* loops : kernels) {
    const std::string name = symbol(loops->functions.back().name);
    if (unit.globals.fresh(loops->functions.back().name) != name)
      throw InternalError(fmt::format("loops: two kernels are called `{}`", name));
  }
  for (const Loops* loops : kernels) unit.kernels += Kernel(unit, *loops).text();
  std::string head;
  if (dialect == Dialect::OpenCl) {
    if (unit.scalars.uses_double()) head += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
    head += "#pragma OPENCL FP_CONTRACT OFF\n";
  }
  return head + unit.scalars.helpers() + unit.tables + unit.kernels;
}

std::string emit(const Lowered& package, Dialect dialect) {
  std::vector<const Loops*> kernels;
  std::map<std::string, std::string> printed;          // kernel → what it prints as
  for (const Step& step : package.steps) {
    const std::string text = print(step.loops);
    const auto [at, is_new] = printed.emplace(step.kernel, text);
    if (is_new) kernels.push_back(&step.loops);
    else if (at->second != text) throw InternalError(fmt::format("package: two kernels are called `{}`", step.kernel));
  }
  return emit(kernels, dialect);
}

Launch launch(const Loops& kernel, Dialect dialect) {
  const Body& body = kernel.functions.back().body;
  const Grid grid = grid_of(body);
  Launch launch;
  std::copy(grid.extent, grid.extent + 3, launch.grid);
  launch.threads = threads_of(body);
  const std::int64_t pool = shared_bytes(body);
  launch.shared = pool + fold_bytes(body, dialect == Dialect::Cuda && launch.threads % 32 == 0);
  if (dialect == Dialect::Cuda && launch.shared > static_shared_limit) launch.dynamic_shared = pool;
  return launch;
}

}  // namespace tilec::codegen::simt
