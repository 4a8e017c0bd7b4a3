// tilec/tilec.hpp from C++17: each class, each way to fail.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tilec/tilec.hpp"

namespace {

int failures = 0;

#define EXPECT(condition)                                               \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                       \
    }                                                                   \
  } while (0)

constexpr char matmul_text[] =
    "function matmul(A[M, K], B[K, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n";
const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, 0, 1, 1, 1};

// The error that a call throws; of TILEC_OK where it throws none.
template <class Call> tilec::Error error_of(Call call) {
  try {
    call();
  } catch (const tilec::Error& error) {
    return error;
  }
  return {TILEC_OK, ""};
}

void a_program_runs_and_so_does_its_gradient() {
  const tilec::Program matmul(matmul_text);
  EXPECT(matmul.name() == "matmul" && matmul.inputs() == tilec::Names({"A", "B"}) &&
      matmul.outputs() == tilec::Names({"C"}));
  std::vector<float> c(4), da(6);
  const std::vector<float> dc{1, 2, 3, 4};
  const auto A = tilec::tensor(a.data(), {2, 3}), B = tilec::tensor(b.data(), {3, 2}),
             dC = tilec::tensor(dc.data(), {2, 2});
  const auto C = tilec::tensor(c.data(), {2, 2}), dA = tilec::tensor(da.data(), {2, 3});
  matmul({A, B}, {C});
  EXPECT(c == std::vector<float>({4, 5, 10, 11}));
  matmul({tilec::named("B", B), tilec::named("A", A)}, {tilec::add(C)});
  EXPECT(c == std::vector<float>({8, 10, 20, 22}));
  const tilec::Program gradient = matmul.gradient({"A"});
  EXPECT(gradient.inputs() == tilec::Names({"A", "B", "dC"}) && gradient.outputs() == tilec::Names({"dA"}));
  gradient({A, B, tilec::named("dC", dC)}, {dA});
  EXPECT(da == std::vector<float>({1, 2, 3, 3, 4, 7}));
  EXPECT(matmul.value_and_gradient({"A"}).outputs() == tilec::Names({"C", "dA"}));
  EXPECT(matmul.jvp({"A"}).outputs() == tilec::Names({"tC"}));
}

void a_kernel_knows_what_it_takes() {
  const tilec::Program matmul(matmul_text);
  std::vector<float> c(4), transposed(4);
  const auto A = tilec::tensor(a.data(), {2, 3}), B = tilec::tensor(b.data(), {3, 2});
  const auto C = tilec::tensor(c.data(), {2, 2}), T = tilec::tensor(transposed.data(), {2, 2}, {1, 2});
  const tilec::Kernel kernel = matmul.specialize({A, B});
  EXPECT(kernel.inputs().size() == 2 && kernel.inputs()[1].name == "B" &&
      kernel.inputs()[1].shape == std::vector<std::int64_t>({3, 2}));
  EXPECT(kernel.outputs()[0].strides == std::vector<std::int64_t>({2, 1}) && kernel.outputs()[0].dtype.bits == 32);
  kernel({A, B}, {C});
  EXPECT(c == std::vector<float>({4, 5, 10, 11}));
  kernel.run({a.data(), b.data()}, {c.data()});
  matmul.specialize({A, B}, {T})({A, B}, {T});
  EXPECT(transposed == std::vector<float>({4, 10, 5, 11}));
  const std::vector<double> wide(6);
  EXPECT(error_of([&] { kernel({A}, {C}); }).status() == TILEC_ARGUMENT_ERROR);
  EXPECT(error_of([&] { kernel({B, B}, {C}); }).status() == TILEC_ARGUMENT_ERROR);
  EXPECT(error_of([&] { kernel({A, B}, {T}); }).status() == TILEC_ARGUMENT_ERROR);
  EXPECT(error_of([&] { kernel.run({a.data()}, {c.data()}); }).status() == TILEC_ARGUMENT_ERROR);
  // the CPU has no streams
  EXPECT(error_of([&] { kernel.run_on({a.data(), b.data()}, {c.data()}, nullptr, c.data()); }).status() ==
      TILEC_ARGUMENT_ERROR);
  EXPECT(error_of([&] { kernel({tilec::tensor(wide.data(), {2, 3}), B}, {C}); }).status() == TILEC_TYPE_ERROR);
  const std::vector<tilec::Port> ports = matmul.infer({A, B});
  EXPECT(ports.size() == 1 && ports[0].shape == std::vector<std::int64_t>({2, 2}));
}

void numbers_are_arguments() {
  const tilec::Program scale("function (X[N], S, Shift) -> (Y) { Y = X * S + Shift; }");
  std::vector<double> x{1, 2}, y(2);
  scale({tilec::tensor(x.data(), {2}), 0.5, 3}, {tilec::tensor(y.data(), {2})});
  EXPECT(y[0] == 3.5 && y[1] == 4);
  const tilec::Program add("function (X[N], S) -> (Y) { Y = X + S; }");
  std::vector<std::uint64_t> large{0, 1}, sum(2);
  add({tilec::tensor(large.data(), {2}), std::uint64_t{1} << 63}, {tilec::tensor(sum.data(), {2})});
  EXPECT(sum[1] == (std::uint64_t{1} << 63) + 1);
}

void forward_keeps_what_backward_needs() {
  const tilec::Program softplus("function (X[N]) -> (Y) { E = exp(X); Y = log(E + 1); }");
  const std::vector<float> x{0, 1, -2}, dy{1, 1, 2};
  const tilec::Pair pair = softplus.vjp({tilec::tensor(x.data(), {3})});
  std::vector<std::vector<float>> made;
  std::vector<void*> out;
  for (const tilec::Port& port : pair.forward.outputs()) made.emplace_back(static_cast<std::size_t>(port.shape.at(0)));
  for (auto& one : made) out.push_back(one.data());
  pair.forward.run({x.data()}, out);
  std::vector<const void*> in;
  const auto outputs = pair.forward.outputs();
  for (const tilec::Port& port : pair.backward.inputs()) {
    const void* found = port.name == "X" ? x.data() : dy.data();
    for (std::size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k].name == port.name) found = made[k].data();
    in.push_back(found);
  }
  std::vector<float> dx(3);
  pair.backward.run(in, {dx.data()});
  for (std::size_t k = 0; k < 3; ++k) EXPECT(std::fabs(dx[k] - dy[k] / (1 + std::exp(-x[k]))) < 1e-5F);
}

void options_are_passed_on() {
  tilec::Options options;
  options.function = "main";
  options.target = "reference";
  options.file_name = "options.tile";
  options.defines = {{"S", 2}, {"F", 0, "square"}};
  const tilec::Program program(
      "function square(x) -> (y) { y = x * x; }\nfunction main<S, F>(X[N]) -> (Y) { Z = F(X); Y[i: N / S] = =(Z[S * i]); }",
      options);
  std::vector<float> y(3);
  program({tilec::tensor(a.data(), {6})}, {tilec::tensor(y.data(), {3})});
  EXPECT(y == std::vector<float>({1, 9, 25}));
  tilec::Options ranks;
  ranks.ranks = {{"B", 2}};
  const tilec::Program total("function total(X[B..., N]) -> (S) { S[] = +(X[b..., n]); }", ranks);
  float sum = 0;
  total({tilec::tensor(a.data(), {1, 2, 3})}, {tilec::tensor(&sum, {})});
  EXPECT(sum == 21);
  EXPECT(error_of([&] { total({tilec::tensor(a.data(), {2, 3})}, {tilec::tensor(&sum, {})}); }).status() ==
      TILEC_ARGUMENT_ERROR);
}

void a_file_has_functions() {
  const tilec::File file("function one(X) -> (Y) { Y = X + 1; }\nfunction two(X) -> (Y) { Y = X + 2; }\n", "both.tile");
  EXPECT(file.functions() == tilec::Names({"one", "two"}));
  float x = 1, y = 0;
  file.compile("two")({tilec::tensor(&x, {})}, {tilec::tensor(&y, {})});
  EXPECT(y == 3);
  EXPECT(error_of([&] { file.compile("three"); }).status() != TILEC_OK);
}

void what_is_saved_can_be_loaded(const std::string& folder) {
  const tilec::Program matmul(matmul_text);
  const auto A = tilec::tensor(a.data(), {2, 3}), B = tilec::tensor(b.data(), {3, 2});
  const auto bytes_of = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  matmul.save(folder + "/hpp.tilec", {A, B});
  std::vector<float> c(4);
  tilec::Kernel::load(bytes_of(folder + "/hpp.tilec"))({A, B}, {tilec::tensor(c.data(), {2, 2})});
  EXPECT(c == std::vector<float>({4, 5, 10, 11}));
  EXPECT(matmul.emit("package", {A, B}) == bytes_of(folder + "/hpp.tilec"));
  const auto C = tilec::tensor(c.data(), {2, 2});
  matmul.save(folder + "/hpp.tilec", {A, B}, {tilec::add(C)});
  const tilec::Kernel adding = tilec::Kernel::load(bytes_of(folder + "/hpp.tilec"));
  EXPECT(adding.adds(0) && !adding.adds(1) && adding.code_size() > 0);
  const auto launches = adding.run_timed({a.data(), b.data()}, {c.data()});
  EXPECT(!launches.empty() && !launches[0].name.empty() && launches[0].milliseconds >= 0);
  EXPECT(c == std::vector<float>({8, 10, 20, 22}));
  EXPECT(matmul.estimate({A, B}).operations == 2 * 2 * 3 * 2 && matmul.estimate({A, B}).exact == 1);
  matmul.save_vjp(folder + "/hpp.pair.tilec", {A, B}, {"A"});
  EXPECT(tilec::Pair::load(bytes_of(folder + "/hpp.pair.tilec")).backward.outputs().at(0).name == "dA");
  EXPECT(error_of([] { tilec::Kernel::load("no package"); }).status() == TILEC_DEVICE_ERROR);
}

void an_error_says_all_that_tilec_said() {
  const tilec::Error error =
      error_of([] { tilec::Program("function (A[M, N]) -> (B) {\n  B[i: M] = +(A[i]);\n}", {}); });
  EXPECT(error.status() == TILEC_PROGRAM_ERROR && error.diagnostics().size() == 1);
  EXPECT(error.diagnostics().at(0).code == "E0201" && error.diagnostics().at(0).line == 2 &&
      std::string(error.what()).find("E0201") != std::string::npos);
  EXPECT(error.diagnostics().at(0).text.find('^') != std::string::npos);
  const tilec::Program matmul(matmul_text);
  std::vector<float> c(4);
  const auto A = tilec::tensor(a.data(), {2, 3});
  EXPECT(error_of([&] { matmul({A, A}, {tilec::tensor(c.data(), {2, 2})}); }).status() == TILEC_ARGUMENT_ERROR);
  EXPECT(error_of([&] { matmul.emit("lops"); }).status() == TILEC_ARGUMENT_ERROR);
  EXPECT(error_of([&] { tilec::tensor(c.data(), {2, 2}, {1}); }).status() == TILEC_ARGUMENT_ERROR);
}

void results_may_be_left_out() {
  const tilec::Program both("function f(X[N]) -> (Y, Z) { Y = exp(X); Z = X + 1; }");
  std::vector<float> x{0, 1}, z(2), dx{5, 5};
  const std::vector<float> one{1, 1};
  const auto X = tilec::tensor(x.data(), {2}), Z = tilec::tensor(z.data(), {2}), dX = tilec::tensor(dx.data(), {2});
  both({X}, {tilec::none, Z});
  EXPECT(z == std::vector<float>({1, 2}));
  both({X}, {tilec::named("Z", tilec::add(Z)), tilec::named("Y", tilec::none)});
  EXPECT(z == std::vector<float>({2, 4}));
  EXPECT(both.specialize({X}, {tilec::none}).outputs().size() == 1);
  EXPECT(error_of([&] { both({X}, {tilec::none, tilec::none}); }).status() == TILEC_ARGUMENT_ERROR);
  const tilec::Program line("function f(X[N], W[N]) -> (Y) { Y = X * W; }");
  const tilec::Pair pair = line.vjp({X, tilec::tensor(one.data(), {2})}, {}, {}, {tilec::add(dX), tilec::none});
  EXPECT(pair.backward.outputs().size() == 1 && pair.backward.inputs().size() == 2);
  for (int round = 0; round < 2; ++round) pair.backward.run({one.data(), one.data()}, {dx.data()});
  EXPECT(dx == std::vector<float>({7, 7}));
}

void a_batch_is_a_program() {
  const tilec::Program matmul(matmul_text);
  std::vector<float> c(8);
  const std::vector<float> batch{1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1};
  matmul.vmap({"A"})(
      {tilec::tensor(batch.data(), {2, 2, 3}), tilec::tensor(b.data(), {3, 2})}, {tilec::tensor(c.data(), {2, 2, 2})});
  EXPECT(c == std::vector<float>({4, 5, 10, 11, 10, 9, 4, 3}));
}

// Counts, and has no memory when told so.
class Counted final : public std::pmr::memory_resource {
 public:
  int asked = 0, live = 0;
  bool full = false;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++asked;
    if (full) throw std::bad_alloc();
    ++live;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    --live;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

void a_host_has_memory_threads_and_ears() {
  constexpr char chain[] =
      "function f(A[N, N]) -> (C) { B[i, j: N, N] = +(A[i, k] * A[k, j]); C[i, j: N, N] = +(B[i, k] * A[k, j]); }";
  constexpr std::int64_t side = 160;
  std::vector<float> in(side * side, 1), out(side * side);
  const auto A = tilec::tensor(in.data(), {side, side}), C = tilec::tensor(out.data(), {side, side});
  Counted memory;
  std::vector<std::string> codes;
  std::int64_t turns = 0;
  bool broken = false;
  tilec::ParallelFor run = [&](std::int64_t count, std::int64_t workers, tilec::Turn turn) {
    if (broken) throw std::runtime_error("no threads");
    for (std::int64_t i = 0; i < count; ++i, ++turns) turn(i, i % workers);
  };
  tilec::Listener listener = [&](const tilec::Diagnostic& one) { codes.push_back(one.code); };
  tilec::set_allocator(&memory);
  tilec::set_parallel_for(&run, 2);
  tilec::set_diagnostic_callback(&listener);
  {
    const tilec::Program program(chain);
    memory.full = true;
    EXPECT(error_of([&] { program({A}, {C}); }).status() == TILEC_DEVICE_ERROR &&
        codes == std::vector<std::string>({"E0512"}) && memory.asked == 1);
    memory.full = false;
    program({A}, {C});
    EXPECT(out[side + 1] == side * side && turns > 1 && memory.live == 1);
    broken = true;
    EXPECT(error_of([&] { program({A}, {C}); }).status() == TILEC_DEVICE_ERROR && codes.back() == "E0554");
  }
  EXPECT(memory.live == 0);
  EXPECT(error_of([&] { tilec::set_parallel_for(&run, 0); }).status() == TILEC_ARGUMENT_ERROR);
  tilec::set_allocator(nullptr);
  tilec::set_parallel_for(nullptr, 0);
  tilec::set_diagnostic_callback(nullptr);
}

void types_are_those_of_tile() {
  static_assert(tilec::dtype_of<bool>() == TILEC_BOOL && tilec::dtype_of<char>() == TILEC_I8 &&
      tilec::dtype_of<long long>() == TILEC_I64);
  static_assert(tilec::dtype_of<std::uint16_t>() == TILEC_U16 && tilec::dtype_of<float>() == TILEC_F32 &&
      tilec::dtype_of<double>() == TILEC_F64);
  static_assert(std::is_same_v<decltype(tilec::tensor(a.data(), {6})), tilec::ConstTensor>);
  static_assert(!std::is_constructible_v<tilec::Result, tilec::ConstTensor>, "what is const is no result");
  static_assert(std::is_nothrow_copy_constructible_v<tilec::Error> &&
      std::is_nothrow_move_constructible_v<tilec::Program> && !std::is_copy_constructible_v<tilec::Program>);
}

}  // namespace

int main(int, char** argv) {
  a_program_runs_and_so_does_its_gradient();
  a_kernel_knows_what_it_takes();
  numbers_are_arguments();
  forward_keeps_what_backward_needs();
  options_are_passed_on();
  a_file_has_functions();
  what_is_saved_can_be_loaded(argv[1]);
  an_error_says_all_that_tilec_said();
  results_may_be_left_out();
  a_batch_is_a_program();
  a_host_has_memory_threads_and_ears();
  types_are_those_of_tile();
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
