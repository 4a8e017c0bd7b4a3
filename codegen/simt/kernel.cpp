// A kernel as a whole: its heading, tables and shared memory; Block, Thread and serial loops.
#include "codegen/simt/kernel.h"

#include <algorithm>

#include "codegen/model/thresholds.h"

namespace tilec::codegen::simt {

using lang::InternalError;

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

namespace {

bool loads(const Expr& e) {
  const auto* converted = e.as<Convert>();
  return converted ? loads(converted->operand) : e.as<Load>() != nullptr;
}

// Loads that stand one behind the other at the begin of a loop, the most of all loops.
std::int64_t loads_of_a_turn(const Body& body) {
  std::int64_t most = 0;
  for (const Stmt& s : body) {
    if (const auto* both = std::get_if<If>(&s.node))
      most = std::max({most, loads_of_a_turn(both->then), loads_of_a_turn(both->otherwise)});
    const auto* loop = std::get_if<For>(&s.node);
    if (!loop) continue;
    const auto last = std::ranges::find_if(loop->body, [](const Stmt& inside) {
      const auto* let = std::get_if<Let>(&inside.node);
      return !let || !loads(let->value);
    });
    most = std::max(most, loop->kind == Kind::Serial ? last - loop->body.begin() : 0);
    most = std::max(most, loads_of_a_turn(loop->body));
  }
  return most;
}

// Blocks that are enough of a multiprocessor, so that registers are free for loads that are on their way together: the
// assembler would ask for them where they are needed, with more threads beside them. 0: it says how many.
std::int64_t blocks_for_loads(const Body& body, std::int64_t threads) {
  if (loads_of_a_turn(body) < model::threads::loads_together) return 0;
  return std::max<std::int64_t>(1,
      static_cast<std::int64_t>(model::threads::registers) / (model::threads::registers_for_loads * threads));
}

}  // namespace

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
  const std::int64_t threads = threads_ * grid_.together;
  const std::string comment = fmt::format("\n// {} x {} x {} blocks of {} threads\n", grid_.extent[0],
      grid_.extent[1], grid_.extent[2], threads);
  if (cuda_) {
    const auto head = [&](const std::string& bounds) {
      return fmt::format(
          "extern \"C\" __global__ void __launch_bounds__({}) {}({})", bounds, name, fmt::join(list, ", "));
    };
    // How many blocks a multiprocessor has stands in a declaration: tools that read kernels know their threads there.
    const std::int64_t blocks = blocks_for_loads(function_.body, threads);
    const std::string declared = blocks ? "\n" + head(fmt::format("{}, {}", threads, blocks)) + ";" : "";
    return declared + comment + head(fmt::format("{}", threads));
  }
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
  pool_of_warp_ = grid_.together > 1 ? fmt::format("(threadIdx.x >> 5) * {} + ", bytes) : "";
  if (dynamic)
    declarations_ += fmt::format("  extern __shared__ __align__({}) unsigned char tc_pool[];\n", alignment());
  else if (cuda_)
    declarations_ += fmt::format(
        "  __shared__ __align__({}) unsigned char tc_pool[{}];\n", alignment(), bytes * grid_.together);
  else declarations_ += fmt::format("  __local unsigned char tc_pool[{}] __attribute__((aligned(16)));\n", bytes);
}

// ---- blocks

void Kernel::top() {
  if (!has_block(function_.body)) return statements(function_.body);
  if (grid_.chained) return blocks(function_.body, "");
  const std::string g = names_.fresh("block_number");
  std::string linear = grid_.extent[1] == 1
      ? group(0)
      : fmt::format("{} + ({}){} * {}", group(0), scalars_.unsigned_index(), group(1), grid_.extent[0]);
  if (grid_.together > 1) linear = fmt::format("({}) * {} + (threadIdx.x >> 5)", linear, grid_.together);
  say("const {0} {1} = ({0})({2});", grid_.blocks <= axis_limit[0] ? "int" : scalars_.index(), g, linear);
  if (grid_.extent[1] > 1 || grid_.blocks % grid_.together != 0)
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
    rest = "0";                                        // of loops of extent 1
  } else {
    say("const {0} {1} = ({0})({2} / {3});", type, name, number, inner);
    if (has_block(loop.body)) {
      rest = names_.fresh("block_number");
      say("const {} {} = {} % {};", grid_.blocks <= axis_limit[0] ? "int" : scalars_.index(), rest, number, inner);
    }
  }
  scope_.variables[loop.index] = Value{name, DType::I64, narrow, Interval{0, extent - 1}};
  if (has_block(loop.body)) {
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

}  // namespace tilec::codegen::simt
