// Loops written by hand, and the way to run them here: what the unit tests of the emitters share.
#pragma once

#include <string>
#include <vector>

#include "codegen/llvm/emit.h"
#include "codegen/locals.h"
#include "codegen/loops.h"
#include "codegen/target.h"
#include "runtime/code.h"
#include "runtime/parallel.h"

namespace kernels {

using namespace tilec::codegen;

// Narrower than most machines, by name: its code runs here.
#ifdef __aarch64__
inline constexpr const char* narrow_cpu = "cpu:aarch64";
#else
inline constexpr const char* narrow_cpu = "cpu:x86-64-v3";
#endif

inline Expr number(double x, DType type = DType::F32) { return Constant{type, 0, x}; }
inline Expr integer(std::int64_t x, DType type) { return Constant{type, x, 0}; }
inline Expr at(std::string view, Expr offset, DType type = DType::F32) {
  return Load{std::move(view), std::move(offset), type};
}
inline Expr apply(Op op, std::vector<Expr> operands, DType type = DType::F32) {
  return Operation{op, std::move(operands), type};
}
inline Expr named(std::string name, DType type = DType::F32) { return Variable{std::move(name), type}; }
inline Stmt loop(std::string index, Kind kind, Expr extent, Body body, std::vector<Advance> advance = {}) {
  return {For{std::move(index), kind, std::move(extent), std::move(advance), std::move(body)}};
}
inline Stmt when(Expr condition, Body then, Body otherwise = {}) {
  return {If{std::move(condition), std::move(then), std::move(otherwise)}};
}
inline Stmt let(std::string name, Expr value) { return {Let{std::move(name), std::move(value)}}; }
inline Stmt view(std::string name, std::string base, Expr offset) {
  return {View{std::move(name), std::move(base), std::move(offset)}};
}
inline Stmt store(std::string view, Expr offset, Expr value, Hint hint = Hint::Plain) {
  return {Store{std::move(view), std::move(offset), std::move(value), hint}};
}
inline Stmt registers(std::string name, DType type, std::int64_t count) {
  return {Allocate{std::move(name), type, count, Memory::Register}};
}

// C[i, j] (+)= sum over r, k of a[off[r] + i*asi + k*ask] * b[r*bst + k*bsk + j], j < w: a block of `rows` by
// vectors·lanes.
inline Function block(const std::string& name, int rows, int vectors, int lanes, bool taps) {
  const auto n = [](std::int64_t x) { return Expr(x); };
  const Expr l = var("l");
  const auto column = [&](int v) { return l + n(v * lanes); };
  const auto tail = [&](int v, Body body) -> Body {
    return v + 1 == vectors ? Body{when(less(column(v), var("w")), body)} : body;
  };
  const auto append = [](Body& to, const Body& more) { to.insert(to.end(), more.begin(), more.end()); };
  const auto acc = [&](int i, int v) { return n(i * vectors + v); };

  Body turn;
  for (int v = 0; v < vectors; ++v) append(turn, tail(v, {store("b", n(v), at("pb", column(v)))}));
  for (int i = 0; i < rows; ++i) {
    const std::string a = "a" + std::to_string(i);
    turn.push_back(let(a, at("pa" + std::to_string(i / 4), var("ro" + std::to_string(i % 4)))));
    for (int v = 0; v < vectors; ++v)
      turn.push_back(store("acc", acc(i, v), apply(Op::Fma, {named(a), at("b", n(v)), at("acc", acc(i, v))})));
  }
  std::vector<Advance> advance{{"pb", var("bsk")}};
  Body core;
  for (int g = 0; g < (rows + 3) / 4; ++g) {
    advance.push_back({"pa" + std::to_string(g), var("ask")});
    core.push_back(view("pa" + std::to_string(g), taps ? "At" : "A", var("asi") * n(4 * g)));
  }
  core.push_back(view("pb", taps ? "Bt" : "B", n(0)));
  core.push_back(loop("k", Kind::Serial, var("K"), turn, advance));
  if (taps) {
    Body tap{view("At", "A", at("off", var("r"), DType::I64)), view("Bt", "B", var("r") * var("bst"))};
    append(tap, core);
    core = {loop("r", Kind::Serial, var("R"), tap)};
  }
  Body add, write;
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v) {
      const Expr place = var("ldc") * n(i) + column(v);
      append(add, tail(v, {store("C", place, apply(Op::Add, {at("C", place), at("acc", acc(i, v))}))}));
      append(write, tail(v, {store("C", place, at("acc", acc(i, v)))}));
    }
  Body lane{registers("acc", DType::F32, rows * vectors), registers("b", DType::F32, vectors)};
  append(lane, core);
  lane.push_back(when(apply(Op::Eq, {var("add"), n(1)}, DType::Bool), add, write));
  Body body;
  for (int i = 0; i < 4; ++i) body.push_back(let("ro" + std::to_string(i), var("asi") * n(i)));
  body.push_back(loop("l", Kind::Vector, n(lanes), lane));
  Function f{name, {{"A", DType::F32}}, {"asi", "ask", "bsk", "ldc", "K", "add", "w"}, body};
  if (taps) f.views.push_back({"off", DType::I64}), f.integers.push_back("R"), f.integers.push_back("bst");
  f.views.push_back({"B", DType::F32});
  f.views.push_back({"C", DType::F32, Direction::InOut});
  return f;
}

// A kernel that calls `f` once on its own views, with constant integers.
inline Loops call_of(const Function& f, const std::vector<std::int64_t>& integers) {
  Function kernel{"kernel", f.views, {}, {}};
  CallStmt call{f.name, {}, {}};
  for (const ViewParameter& v : f.views) call.views.push_back(v.name);
  for (std::int64_t n : integers) call.integers.emplace_back(n);
  kernel.body = {Stmt{call}};
  return Loops{{f, kernel}, {}};
}

using Entry = void (*)(void* const* views, const tilec_parallel* pool, void* locals);

class Run {
 public:
  explicit Run(const Loops& loops, const std::string& target = "cpu") {
    verify(loops);
    code_ = std::make_unique<tilec::runtime::Code>(llvm_backend::emit({&loops}, *target_named(target)).object);
    locals_.resize(static_cast<std::size_t>(local_bytes(loops) * tilec::runtime::default_pool()->workers + 64));
    entry_ = reinterpret_cast<Entry>(code_->symbol(loops.functions.back().name));
  }
  template <class... Pointers>
  void operator()(Pointers*... views) const {
    call(tilec::runtime::default_pool(), views...);
  }
  template <class... Pointers> void alone(Pointers*... views) const { call(nullptr, views...); }

 private:
  template <class... Pointers> void call(const tilec_parallel* pool, Pointers*... views) const {
    void* const all[] = {const_cast<void*>(static_cast<const void*>(views))...};
    entry_(all, pool, locals_.data() + (64 - reinterpret_cast<std::uintptr_t>(locals_.data()) % 64) % 64);
  }

  std::unique_ptr<tilec::runtime::Code> code_;
  Entry entry_ = nullptr;
  mutable std::vector<char> locals_;
};

}  // namespace kernels
