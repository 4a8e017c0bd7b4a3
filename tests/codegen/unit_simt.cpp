// The text of the SIMT emitter, without a device.
#include <doctest/doctest.h>

#include <array>
#include <set>

#include "codegen/scalar.h"
#include "codegen/simt/grid.h"
#include "codegen/simt/names.h"
#include "lang/diagnostic.h"
#include "tests/codegen/compiled.h"
#include "tests/codegen/simt_kernels.h"

namespace tilec::test {
namespace {

using simt::Dialect;

std::string text(const Loops& loops, Dialect dialect) { return simt::emit({&loops}, dialect); }

Loops map_kernel(std::int64_t blocks) {
  const Expr i = var("i") * 256 + var("t");
  return {
      {kernel("twice", {{"X", DType::F32, Direction::In}, {"Y", DType::F32, Direction::Out}},
          {loop("i", Kind::Block, Expr(blocks),
              {loop("t", Kind::Thread, 256, {store("Y", i, op(Op::Mul, {load("X", i), number(DType::F32, 2)}))})})})},
      {}};
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::vector<std::string> kernels(const std::string& text, const std::string& target) {
  const Stages stages = compiled(text, request_for({}, target), Until::Lowered);
  std::vector<std::string> names;
  for (const Step& step : stages.lowered->steps) names.push_back(step.kernel);
  return names;
}

}  // namespace

TEST_CASE("one nest, two dialects") {
  CHECK(text(map_kernel(64), Dialect::Cuda) ==
      "\n// 64 x 1 x 1 blocks of 256 threads\n"
      "extern \"C\" __global__ void __launch_bounds__(256) twice(const float* __restrict__ X, float* __restrict__ Y) {\n"
      "  const int i = (int)blockIdx.x;\n"
      "  {\n"
      "    const int t = (int)threadIdx.x;\n"
      "    Y[(i * 256) + t] = X[(i * 256) + t] * 2.0f;\n"
      "  }\n"
      "}\n");
  CHECK(text(map_kernel(64), Dialect::OpenCl) ==
      "#pragma OPENCL FP_CONTRACT OFF\n"
      "\n// 64 x 1 x 1 blocks of 256 threads\n"
      "__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void twice(__global const float* restrict X, __global float* restrict Y) {\n"
      "  const int i = (int)get_group_id(0);\n"
      "  {\n"
      "    const int t = (int)get_local_id(0);\n"
      "    Y[(i * 256) + t] = X[(i * 256) + t] * 2.0f;\n"
      "  }\n"
      "}\n");
}

TEST_CASE("aligned neighbours are one access, others stay apart") {
  const auto copy = [](const std::string& name, std::int64_t alignment) {
    return Body{Stmt{View{name, "X", Expr(4), alignment}}, store("Y", Expr(0), load(name, Expr(0)))};
  };
  Loops loops = map_kernel(1);
  Body& body = std::get<For>(std::get<For>(loops.functions[0].body[0].node).body[0].node).body;
  body = {Stmt{Aligned{"whole", "X", 16}}, Stmt{If{Variable{"whole", DType::Bool}, copy("v", 16), copy("w", 1)}}};
  verify(loops);
  const std::string cuda = text(loops, Dialect::Cuda), opencl = text(loops, Dialect::OpenCl);
  CHECK(holds(cuda, "const bool whole = ((unsigned long long)X & 15) == 0;"));
  CHECK(holds(cuda, "const float* v = (const float*)__builtin_assume_aligned(X + 4, 16);"));
  CHECK(holds(cuda, "const volatile float* w = X + 4;"));
  CHECK(holds(opencl, "const bool whole = ((ulong)X & 15) == 0;"));
  CHECK(holds(opencl, "__global const float* v = X + 4;"));
  CHECK(holds(print(loops), "let whole = X aligned 16"));
  CHECK(holds(print(loops), "view v = X + 4 align 16"));
}

TEST_CASE("an index that may exceed 32 bits is 64 bits wide") {
  CHECK(holds(text(map_kernel(1 << 23), Dialect::Cuda), "Y[(i * 256) + t]"));
  CHECK(holds(text(map_kernel((1 << 23) + 1), Dialect::Cuda), "Y[(((long long)i) * 256) + t]"));
  CHECK(holds(text(map_kernel((1 << 23) + 1), Dialect::OpenCl), "Y[(((long)i) * 256) + t]"));
}

TEST_CASE("a chain of blocks takes an axis each, siblings share one") {
  const Body inner = {loop("t", Kind::Thread, 64, {store("X", var("t"), number(DType::F32, 0))})};
  const auto launch = [](Body body) {
    return simt::launch({{kernel("k", {{"X", DType::F32, Direction::Out}}, std::move(body))}, {}}, Dialect::Cuda);
  };
  const simt::Launch chain =
      launch({loop("a", Kind::Block, 2, {loop("b", Kind::Block, 3, {loop("c", Kind::Block, 5, inner)})})});
  CHECK((chain.grid[0] == 5 && chain.grid[1] == 3 && chain.grid[2] == 2 && chain.threads == 64));
  const simt::Launch four = launch({loop("a", Kind::Block, 2,
      {loop("b", Kind::Block, 3, {loop("c", Kind::Block, 5, {loop("d", Kind::Block, 7, inner)})})})});
  CHECK((four.grid[0] == 210 && four.grid[1] == 1));
  const simt::Launch siblings =
      launch({loop("a", Kind::Block, 2, inner), loop("b", Kind::Block, 3, {loop("c", Kind::Block, 5, inner)})});
  CHECK((siblings.grid[0] == 17 && siblings.grid[1] == 1));
  const simt::Launch tall = launch({loop("a", Kind::Block, 70000, {loop("b", Kind::Block, 3, inner)})});
  CHECK((tall.grid[0] == 210000 && tall.grid[1] == 1));
  const simt::Launch none = launch({loop("a", Kind::Block, 0, inner)});
  CHECK(none.grid[0] == 0);
}

TEST_CASE("many blocks of a warp are launched four at a time, each with its own shared memory") {
  const auto rows = [](std::int64_t blocks, std::int64_t threads, std::int64_t shared) {
    Loops loops = softmax("rows", blocks, 40, threads);
    Body& block = std::get<For>(loops.functions[0].body[0].node).body;
    block.insert(block.begin(), allocate("pool", DType::F32, shared / 4, Memory::Shared));
    block.push_back(loop("t2", Kind::Thread, threads, {Stmt{Barrier{}}}));
    return loops;
  };
  const simt::Launch four = simt::launch(rows(4097, 32, 160), Dialect::Cuda);
  CHECK((four.grid[0] == 1025 && four.threads == 128 && four.shared == 4 * 160));
  const std::string cuda = text(rows(4097, 32, 160), Dialect::Cuda);
  CHECK(holds(cuda, "// 1025 x 1 x 1 blocks of 128 threads"));
  CHECK(holds(cuda, "__launch_bounds__(128)"));
  CHECK(holds(cuda, "block_number = (int)((blockIdx.x) * 4 + (threadIdx.x >> 5));\n  if (block_number >= 4097) return;"));
  CHECK(holds(cuda, "tc_pool + (threadIdx.x >> 5) * 160 + 0"));
  CHECK((holds(cuda, "__syncwarp();") && !holds(cuda, "__syncthreads")));
  for (const auto& [blocks, threads, shared] :
      {std::array<std::int64_t, 3>{4095, 32, 160}, {4097, 64, 160}, {4097, 32, 3600}}) {
    const simt::Launch alone = simt::launch(rows(blocks, threads, shared), Dialect::Cuda);
    CHECK((alone.grid[0] == blocks && alone.threads == threads));
    CHECK(holds(text(rows(blocks, threads, shared), Dialect::Cuda), "__syncthreads();"));
  }
  CHECK(simt::launch(rows(4097, 32, 160), Dialect::OpenCl).grid[0] == 4097);
}

TEST_CASE("names keep apart, and out of the way of C") {
  std::set<std::string> seen;
  for (const char* name : {"A", "a", "#a", "a#", "_a", "a_", "a__b", "x'", "double", "tn_double", "tn_", "exp", "expf",
           "float4", "half", "read_only", "texture", "", "1x", "é", "tc_max_f32"}) {
    const std::string id = simt::identifier(name);
    CHECK_MESSAGE(seen.insert(id).second, name);
    CHECK((std::isalpha(static_cast<unsigned char>(id[0])) != 0));
  }
  CHECK(simt::identifier("A") == "A");
  CHECK(simt::identifier("tanh_grad") == "tanh_grad");
  simt::Identifiers names;
  CHECK((names.fresh("i") == "i" && names.fresh("i") == "i_1" && names.fresh("i_1") == "i_1_1"));
}

TEST_CASE("helpers are printed once, and only when used") {
  const Expr i = var("i");
  const auto two = [&](Op o) { return store("Y", i, op(o, {load("X", i, DType::I32), load("X", i, DType::I32)})); };
  const Loops loops = {{kernel("k", {{"X", DType::I32, Direction::In}, {"Y", DType::I32, Direction::Out}},
                           {loop("i", Kind::Block, 4, {two(Op::Div), two(Op::Div), two(Op::Add)})})},
      {}};
  const std::string cuda = text(loops, Dialect::Cuda);
  CHECK(cuda.find("tc_div_i32(int a, int b)") == cuda.rfind("tc_div_i32(int a, int b)"));
  CHECK(!holds(cuda, "tc_mod"));
  CHECK(holds(cuda, "(int)((unsigned int)X[i] + (unsigned int)X[i])"));
}

TEST_CASE("below a max, CUDA's assembler is not shown that an int is -x") {
  const Expr i = var("i"), x = load("X", i, DType::I32), at = op(Op::Max, {Expr(0), op(Op::Neg, {i})}),
             both = op(Op::Max, {at, Expr(7) - i * 3});
  const Loops loops = {{kernel("k", {{"X", DType::I32, Direction::In}, {"Y", DType::I32, Direction::Out}},
                           {loop("i", Kind::Block, 4,
                               {store("Y", at, op(Op::Max, {x, op(Op::Neg, {x})})), store("Y", both, x),
                                   store("Y", op(Op::Min, {at, Expr(3)}), x)})})},
      {}};
  const std::string cuda = text(loops, Dialect::Cuda);
  CHECK(holds(cuda, "Y[tc_max_i32(0, (0 - i))] = tc_apart(tc_max_i32(X[i], tc_apart("));
  CHECK(holds(cuda, "Y[tc_max_i32(tc_apart(tc_max_i32(0, (0 - i))), "));
  CHECK(holds(cuda, "Y[tc_min_i32(tc_max_i32(0, (0 - i)), 3)]"));
  CHECK(!holds(text(loops, Dialect::OpenCl), "tc_apart"));
}

TEST_CASE("a float is rounded to 16 bits once, by CUDA in one instruction") {
  const auto rounded = [](const Expr& e, DType type) { return convert(convert(e, type), DType::F32); };
  const auto of = [](const Expr& value) {
    return Loops{{kernel("k", {{"X", DType::F32, Direction::In}, {"Y", DType::F32, Direction::Out}},
                     {loop("i", Kind::Block, 4, {store("Y", var("i"), value)})})},
        {}};
  };
  const Expr x = load("X", var("i"));
  const std::string once = text(of(rounded(x, DType::BF16)), Dialect::Cuda);
  CHECK(holds(once, "tc_bf16_f32(tc_f32_bf16(X[i]))"));
  CHECK(holds(once, "cvt.rn.bf16.f32"));
  CHECK(text(of(rounded(rounded(x, DType::BF16), DType::BF16)), Dialect::Cuda) == once);
  CHECK(holds(text(of(rounded(rounded(x, DType::F16), DType::BF16)), Dialect::Cuda),
      "tc_f32_bf16(tc_f16_f32(tc_f32_f16(X[i])))"));
}

TEST_CASE("a guard that always holds is not printed") {
  const auto guarded = [](std::int64_t limit) {
    return Loops{{kernel("k", {{"X", DType::F32, Direction::Out}},
                     {loop("i", Kind::Block, 4,
                         {when(less(var("i") * 3, limit), {store("X", var("i"), number(DType::F32, 1))})})})},
        {}};
  };
  CHECK(!holds(text(guarded(10), Dialect::Cuda), "if"));
  CHECK(holds(text(guarded(9), Dialect::Cuda), "if ((i * 3) < 9)"));
  CHECK(!holds(text(guarded(0), Dialect::Cuda), "X[i]"));
}

TEST_CASE(
    "the shared memory of Folds counts: what a kernel may declare, what is asked for at launch, what a block takes") {
  const std::int64_t limit = 48 << 10, folds = 16 + 8 * 4;  // eight warps: 8 bytes of u8 and 32 of f32, each in 16s
  const auto with_pool = [](std::int64_t bytes) {
    Loops loops = softmax("rows", 4, 1000, 256);
    Body& block = std::get<For>(loops.functions[0].body[0].node).body;
    Body& thread = std::get<For>(block.back().node).body;
    thread.push_back(fold("any", Aggregation::Max,
        op(Op::Select,
            {op(Op::Lt, {typed("sm", DType::F32), number(DType::F32, 1)}), Expr(Constant{DType::U8, 1, 0}),
                Expr(Constant{DType::U8, 0, 0})}),
        "t"));
    block.insert(block.begin(), allocate("pool", DType::F32, bytes / 4, Memory::Shared));
    return loops;
  };
  const auto fits = simt::launch(with_pool(limit - folds), Dialect::Cuda),
             beyond = simt::launch(with_pool(limit - folds + 16), Dialect::Cuda);
  CHECK(fits.shared == limit);
  CHECK(fits.dynamic_shared == 0);
  CHECK(beyond.shared == limit + 16);
  CHECK(beyond.dynamic_shared == limit - folds + 16);
  CHECK(!holds(text(with_pool(limit - folds), Dialect::Cuda), "extern __shared__"));
  CHECK(holds(text(with_pool(limit - folds + 16), Dialect::Cuda), "extern __shared__"));
  CHECK(simt::launch(with_pool(1024), Dialect::OpenCl).shared == 1024 + 256 + 256 * 4);  // a tree over all threads
  CHECK(simt::launch(softmax("warp", 4, 1000, 32), Dialect::Cuda).shared == 0);           // a warp needs none
}

TEST_CASE("a fold of truths shuffles in every lane, whatever its own says") {
  const std::string cuda = text(reduction("all", DType::Bool, Aggregation::Min, 3, 64), Dialect::Cuda);
  CHECK(holds(cuda, "const bool tc_o = (bool)__shfl_xor_sync("));
  CHECK(holds(cuda, "&& tc_o;"));
}

TEST_CASE("two kernels of one name") {
  const Loops loops = map_kernel(4);
  CHECK_THROWS_AS(simt::emit({&loops, &loops}, Dialect::Cuda), lang::InternalError);
}

using Names = std::vector<std::string>;

TEST_CASE("steps of a GPU that write parts of one buffer are one launch, whose blocks with most to do come first") {
  const std::string classes =
      "function f(D[300, 40], K[5, 40, 24]) -> (O) { O[3*i + k, c: 902, 24] = +(D[i, b] * K[k, b, c]); }";
  const Lowered made = *compiled(classes, request_for({}, "cuda:sm_90a"), Until::Lowered).lowered;
  REQUIRE(made.steps.size() == 1);
  const Step& step = made.steps[0];
  CHECK(step.kernel == "k0_to_k2_O");
  CHECK(step.groups == std::vector<std::size_t>{0, 1, 2});
  CHECK(step.buffers == std::vector<int>{0, 1, 2});
  CHECK(simt::launch(step.loops, Dialect::Cuda).grid[0] == simt::blocks_of(step.loops.functions.back().body));
  CHECK(kernels(classes, "opencl") == Names{"k0_O_0_pairs", "k1_to_k3_O"});
  CHECK(kernels(classes, "cpu:x86-64-v3").size() > 2);
}

TEST_CASE("steps of which one writes or reads what another writes stay launches of their own") {
  const auto chain = [](const std::string& element, const std::string& value) {
    return "function f(X[300, 8], Y[300, 8]) -> (P) { A[2*i, c: 602, 8] = =(X[i, c] * 2.0), 0 <= i < 300 default 1.0; "
           "P[" + element + ", c: 602, 8] = " + value + ", 0 <= i < 300 default A; }";
  };
  const auto ends = [&](const std::string& element, const std::string& value) {
    return kernels(chain(element, value), "cuda:sm_90a").back();
  };
  CHECK(kernels(chain("2*i + 1", "=(Y[i, c] * 3.0)"), "cuda:sm_90a") == Names{"k0_to_k3_P"});
  CHECK(ends("2*i + 2", "=(Y[i, c] * 3.0)") == "k2_P");     // elements of the other
  CHECK(ends("i + 1", "=(Y[i, c] * 3.0)") == "k2_P");
  CHECK(ends("2*i + 1", "+(A[2*i, b] * Y[i, c])") == "k4_P");  // values of the other
  const std::string apart =
      "function f(X[300, 20], Y[300, 20]) -> (P, Q) { P[i, j: 300, 20] = =(X[i, j] * 2.0); Q[j: 20] = +(Y[i, j]); }";
  for (const std::string& name : kernels(apart, "cuda:sm_90a")) CHECK(name.find("_to_") == std::string::npos);
}

}  // namespace tilec::test
