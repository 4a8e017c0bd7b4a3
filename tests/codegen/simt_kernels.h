// Kernels written by hand in Loops: what the tests of the emitter, of OpenCL and of NVRTC run and compile.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "codegen/loops.h"
#include "codegen/lowered.h"
#include "codegen/simt/emit.h"

namespace tilec::test {

using namespace codegen;

inline Expr number(DType type, double x) {
  return lang::is_float(type) ? Expr(Constant{type, 0, x}) : Expr(Constant{type, static_cast<std::int64_t>(x), 0});
}
inline Expr load(const std::string& view, Expr offset, DType type = DType::F32) {
  return Load{view, std::move(offset), type};
}
inline Expr op(Op o, std::vector<Expr> operands) {
  const bool boolean = lang::info(o).result == lang::Result::Boolean;
  const DType type = boolean ? DType::Bool : operands.back().type();
  return Operation{o, std::move(operands), type};
}
inline Stmt loop(const std::string& index, Kind kind, Expr extent, Body body, std::vector<Advance> advance = {}) {
  return {For{index, kind, std::move(extent), std::move(advance), std::move(body)}};
}
inline Stmt let(const std::string& name, Expr value) { return {Let{name, std::move(value)}}; }
inline Stmt view(const std::string& name, const std::string& base, Expr offset) {
  return {View{name, base, std::move(offset)}};
}
inline Stmt store(const std::string& view, Expr offset, Expr value) {
  return {Store{view, std::move(offset), std::move(value), Hint::Plain}};
}
inline Stmt when(Expr condition, Body then, Body otherwise = {}) {
  return {If{std::move(condition), std::move(then), std::move(otherwise)}};
}
inline Stmt allocate(const std::string& name, DType type, std::int64_t count, Memory memory) {
  return {Allocate{name, type, count, memory}};
}
inline Stmt fold(const std::string& name, Aggregation how, Expr value, const std::string& over) {
  return {Fold{name, how, std::move(value), over}};
}
inline Expr typed(const std::string& name, DType type) { return Variable{name, type}; }
inline void append(Body& to, const Body& from) { to.insert(to.end(), from.begin(), from.end()); }

inline Function kernel(const std::string& name, std::vector<ViewParameter> views, Body body) {
  return Function{name, std::move(views), {}, std::move(body)};
}

// C[i, j] = Σ A[i, k] B[k, j], a block of BM x BN per group staged through shared memory, TM x TN per thread.
inline Loops matmul(const std::string& name, std::int64_t M, std::int64_t N, std::int64_t K, std::int64_t BM,
    std::int64_t BN, std::int64_t BK, std::int64_t TM, std::int64_t TN, int alignment = 0) {
  const std::int64_t threads = (BM / TM) * (BN / TN);
  const Expr zero = number(DType::F32, 0), t = var("t");
  const auto copy = [&](const std::string& to, std::int64_t count, std::int64_t width, const Expr& row0,
                        const Expr& col0, std::int64_t rows, std::int64_t cols, const std::string& from,
                        bool transposed) {
    const Expr e = t + var("q") * threads;
    const Expr r = floor_divide(e, width), c = Operation{Op::Mod, {e, Expr(width)}, DType::I64};
    const Expr at = transposed ? var("c") * BM + var("r") : var("r") * width + var("c");
    return loop("q", Kind::Unroll, count / threads,
        {let("r", r), let("c", c), store(to, at, zero),
            when(both(less(row0 + var("r"), rows), less(col0 + var("c"), cols)),
                {store(to, at, load(from, (row0 + var("r")) * cols + (col0 + var("c"))))})});
  };
  const Body compute = {
      loop("i", Kind::Unroll, TM, {store("a", var("i"), load("As", var("k") * BM + var("ty") * TM + var("i")))}),
      loop("j", Kind::Unroll, TN, {store("b", var("j"), load("Bs", var("k") * BN + var("tx") * TN + var("j")))}),
      loop("i", Kind::Unroll, TM, {loop("j", Kind::Unroll, TN, {store("acc", var("i") * TN + var("j"),
          op(Op::Fma, {load("a", var("i")), load("b", var("j")), load("acc", var("i") * TN + var("j"))}))})})};
  const Body out = {loop("i", Kind::Unroll, TM,
      {loop("j", Kind::Unroll, TN,
          {let("m", var("i0") + var("ty") * TM + var("i")), let("n", var("j0") + var("tx") * TN + var("j")),
              when(both(less(var("m"), M), less(var("n"), N)),
                  {store("C", var("m") * N + var("n"), load("acc", var("i") * TN + var("j")))})})})};
  Body body = {allocate("acc", DType::F32, TM * TN, Memory::Register), allocate("a", DType::F32, TM, Memory::Register),
      allocate("b", DType::F32, TN, Memory::Register), let("ty", floor_divide(t, BN / TN)),
      let("tx", Operation{Op::Mod, {t, Expr(BN / TN)}, DType::I64}),
      loop("q", Kind::Unroll, TM * TN, {store("acc", var("q"), zero)})};
  Body step = {let("k0", var("kb") * BK), copy("As", BM * BK, BK, var("i0"), var("k0"), M, K, "A", true),
      copy("Bs", BK * BN, BN, var("k0"), var("j0"), K, N, "B", false), {Barrier{}},
      loop("k", Kind::Unroll, BK, compute), {Barrier{}}};
  body.push_back(loop("kb", Kind::Serial, (K + BK - 1) / BK, step));
  append(body, out);
  const Body nest = {loop("bj", Kind::Block, (N + BN - 1) / BN,
      {loop("bi", Kind::Block, (M + BM - 1) / BM,
          {let("i0", var("bi") * BM), let("j0", var("bj") * BN), allocate("As", DType::F32, BK * BM, Memory::Shared),
              allocate("Bs", DType::F32, BK * BN, Memory::Shared), loop("t", Kind::Thread, threads, body)})})};
  return {{kernel(name,
              {{"A", DType::F32, Direction::In, alignment}, {"B", DType::F32, Direction::In, alignment},
                  {"C", DType::F32, Direction::Out, alignment}},
              nest)},
      {}};
}

// Y[i, :] = softmax(X[i, :]), a block per row.
inline Loops softmax(const std::string& name, std::int64_t rows, std::int64_t N, std::int64_t threads) {
  const std::int64_t full = N / threads, rest = N % threads;
  const auto at = [&](const Expr& j) { return j * threads + var("t"); };
  const auto over = [&](const std::function<Body(const Expr&)>& f) {
    Body body;
    if (full) body.push_back(loop("j", Kind::Serial, full, f(at(var("j")))));
    if (rest) body.push_back(when(less(at(full), N), f(at(full))));
    return body;
  };
  const Expr zero = std::int64_t{0};
  Body row = {allocate("m", DType::F32, 1, Memory::Register), allocate("s", DType::F32, 1, Memory::Register),
      store("m", zero, number(DType::F32, -std::numeric_limits<double>::infinity())),
      store("s", zero, number(DType::F32, 0))};
  append(
      row, over([&](const Expr& e) { return Body{store("m", zero, op(Op::Max, {load("m", zero), load("x", e)}))}; }));
  row.push_back(fold("mx", Aggregation::Max, load("m", zero), "t"));
  append(row, over([&](const Expr& e) {
    return Body{store("y", e, op(Op::Exp, {op(Op::Sub, {load("x", e), typed("mx", DType::F32)})})),
        store("s", zero, op(Op::Add, {load("s", zero), load("y", e)}))};
  }));
  row.push_back(fold("sm", Aggregation::Sum, load("s", zero), "t"));
  append(row,
      over([&](const Expr& e) { return Body{store("y", e, op(Op::Div, {load("y", e), typed("sm", DType::F32)}))}; }));
  const Body nest = {loop("i", Kind::Block, rows,
      {view("x", "X", var("i") * N), view("y", "Y", var("i") * N), loop("t", Kind::Thread, threads, row)})};
  return {{kernel(name, {{"X", DType::F32, Direction::In}, {"Y", DType::F32, Direction::InOut}}, nest)}, {}};
}

inline const std::vector<Op>& unary_ops() {
  static const std::vector<Op> ops = {Op::Neg, Op::Abs, Op::Recip, Op::Relu, Op::Sign, Op::Ceil, Op::Floor, Op::Round,
      Op::Trunc, Op::Sigmoid, Op::Exp, Op::Log, Op::Sqrt, Op::Erf, Op::Sin, Op::Cos, Op::Tan, Op::Asin, Op::Acos,
      Op::Atan, Op::Sinh, Op::Cosh, Op::Tanh, Op::Asinh, Op::Acosh, Op::Atanh, Op::Not};
  return ops;
}
inline const std::vector<Op>& binary_ops() {
  static const std::vector<Op> ops = {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min, Op::Mod, Op::Pow, Op::Atan2,
      Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr};
  return ops;
}
inline const std::vector<Op>& tests_ops() {
  static const std::vector<Op> ops = {Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::IsNan, Op::IsFinite};
  return ops;
}
inline bool exists(Op o, DType type) {
  const bool real = lang::is_float(type);
  if (lang::info(o).integers_only || o == Op::Not)
    return !real && (type != DType::Bool || (o != Op::Shl && o != Op::Shr));
  if (type == DType::Bool) return lang::info(o).result == lang::Result::Boolean;
  return real || lang::info(o).result != lang::Result::Float;
}

// Every operation of a type on n pairs: Z[k, i] = op_k(X[i], Y[i]), B[k, i] = test_k(X[i], Y[i]); f16 and bf16 compute
// in f32.
struct Operations { Loops loops; std::vector<Op> values, tests; };
inline Operations operations(DType type, std::int64_t n) {
  Operations all;
  const DType computed = type == DType::F16 || type == DType::BF16 ? DType::F32 : type;
  const Expr i = var("i") * 64 + var("t");
  const auto in = [&](const std::string& name) {
    return computed == type ? load(name, i, type) : Expr(Convert{load(name, i, type), computed});
  };
  Body body = {let("x", in("X")), let("y", in("Y"))};
  const Expr x = typed("x", computed), y = typed("y", computed);
  const auto operands = [&](Op o) { return lang::info(o).arity == 1 ? std::vector<Expr>{x} : std::vector<Expr>{x, y}; };
  const auto put = [&](Op o) {
    const Expr value = op(o, operands(o));
    body.push_back(store("Z", i + static_cast<std::int64_t>(all.values.size()) * n,
        computed == type ? value : Expr(Convert{value, type})));
    all.values.push_back(o);
  };
  for (Op o : unary_ops()) if (exists(o, type)) put(o);
  for (Op o : binary_ops()) if (exists(o, type)) put(o);
  for (Op o : tests_ops()) {
    if (!exists(o, type)) continue;
    body.push_back(store("B", i + static_cast<std::int64_t>(all.tests.size()) * n, op(o, operands(o))));
    all.tests.push_back(o);
  }
  const Body nest = {loop("i", Kind::Block, (n + 63) / 64, {loop("t", Kind::Thread, 64, {when(less(i, n), body)})})};
  all.loops = {{kernel("operations_" + std::string(lang::name(type)),
                   {{"X", type, Direction::In}, {"Y", type, Direction::In}, {"Z", type, Direction::Out},
                       {"B", DType::Bool, Direction::Out}},
                   nest)},
      {}};
  return all;
}

// Z_T[i] = T(X[i]) for every type T.
inline Loops casts(DType from, std::int64_t n) {
  std::vector<ViewParameter> views = {{"X", from, Direction::In}};
  const Expr i = var("i") * 64 + var("t");
  Body body;
  for (DType to : lang::all_dtypes) {
    const std::string out = "Z_" + std::string(lang::name(to));
    views.push_back({out, to, Direction::Out});
    body.push_back(store(out, i, from == to ? load("X", i, from) : Expr(Convert{load("X", i, from), to})));
  }
  const Body nest = {loop("i", Kind::Block, (n + 63) / 64, {loop("t", Kind::Thread, 64, {when(less(i, n), body)})})};
  return {{kernel("casts_" + std::string(lang::name(from)), views, nest)}, {}};
}

// Y[r] = ⊕ X[r, :], one element per thread.
inline Loops reduction(const std::string& name, DType type, Aggregation how, std::int64_t rows, std::int64_t threads) {
  const Body nest = {loop("r", Kind::Block, rows,
      {loop("t", Kind::Thread, threads,
          {fold("sum", how, load("X", var("r") * threads + var("t"), type), "t"),
              when(op(Op::Eq, {var("t"), Expr(std::int64_t{0})}), {store("Y", var("r"), typed("sum", type))})})})};
  return {{kernel(name, {{"X", type, Direction::In}, {"Y", type, Direction::Out}}, nest)}, {}};
}

inline Step step(Loops loops, std::vector<int> buffers) {
  const std::string name = loops.functions.back().name;
  return {name, std::move(loops), std::move(buffers), {}};
}

}  // namespace tilec::test
