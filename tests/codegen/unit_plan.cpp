// Plans print, parse back to the same value, and say what the scheduler is expected to see in a program.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "codegen/moves.h"
#include "tests/codegen/compiled.h"

using namespace tilec;
using test::Sizes;

namespace {

codegen::Plan plan_of(
    const std::string& text, const Sizes& sizes, bool gradient = false, const char* target = "cpu:x86-64-v4") {
  return *test::compiled(text, test::request_for(sizes, target, gradient ? 1 : 0), codegen::Until::Plan).plan;
}

const char* const matmul = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
const char* const transposed = "function (A[M, K], B[N, K]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[j, k]); }";
const char* const convolution =
    "function (I[N, H, W, CI], K[R, S, CI, CO]) -> (O) { O[n, y, x, c: N, (H + 1)/2, (W + 1)/2, CO] = +(I[n, 2*y + j - 1, 2*x + i - 1, d] * K[j, i, d, c]); }";
const char* const softmax =
    "function (X[M, N]) -> (Y) { A[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - A[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }";
const char* const total = "function (X[N]) -> (S) { S[] = +(X[i] * X[i]); }";

}  // namespace

TEST_CASE("a plan reads back from its print") {
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3", "opencl", "cuda:sm_90a"})
    for (const bool gradient : {false, true}) {
      const codegen::Plan plans[] = {plan_of(matmul, {{"M", 130}, {"N", 70}, {"K", 50}}, gradient, target),
          plan_of(convolution, {{"N", 2}, {"H", 28}, {"W", 28}, {"CI", 16}, {"R", 3}, {"S", 3}, {"CO", 32}}, gradient,
              target),
          plan_of(softmax, {{"M", 400}, {"N", 100}}, gradient, target),
          plan_of(total, {{"N", 1000003}}, gradient, target)};
      for (const codegen::Plan& plan : plans) {
        std::string message;
        const auto groups = codegen::parse_groups(codegen::print(plan), plan.program, message);
        REQUIRE_MESSAGE(groups, message);
        CHECK(*groups == plan.groups);
      }
    }
}

TEST_CASE("indices may be called as the parts of a leaf are") {
  const codegen::Plan plan = plan_of(
      "function (A[P, Q, R, S]) -> (C, T) { C[k, over, m: P, Q, R] = +(A[k, over, m, n]); T[n, lanes, block, rows: S, Q, R, P] = =(A[rows, lanes, block, n]); }",
      {{"P", 5}, {"Q", 6}, {"R", 7}, {"S", 40}}, false, "cuda:sm_90a");
  std::string message;
  const auto groups = codegen::parse_groups(codegen::print(plan), plan.program, message);
  REQUIRE_MESSAGE(groups, message);
  CHECK(*groups == plan.groups);
}

TEST_CASE("a line that is no plan is named") {
  const codegen::Plan plan = plan_of(matmul, {{"M", 8}, {"N", 8}, {"K", 8}});
  const auto message_of = [&](const char* text) {
    std::string message;
    CHECK_FALSE(codegen::parse_groups(text, plan.program, message));
    return message;
  };
  CHECK(message_of("contract C").find("starts with `group NAME`") != std::string::npos);
  CHECK(message_of("group C\n  conjure C").find("`conjure`") != std::string::npos);
  CHECK(message_of("group C\n  contract Z").find("`Z`") != std::string::npos);
  CHECK(message_of("group C\n  contract C  block 4by4").find("ROWSxVECTORS") != std::string::npos);
  CHECK(message_of("group C\n  parallel i by 0\n").find("`i`") != std::string::npos);
}

TEST_CASE("a leaf has no parts of another form") {
  const codegen::Plan plan = plan_of(matmul, {{"M", 8}, {"N", 8}, {"K", 8}});
  const std::map<std::string, std::vector<std::string>> forms_of = {{"along i", {"scan"}},
      {"m i", {"contract", "map", "reduce", "fill"}}, {"turned", {"contract", "map", "fill"}},
      {"rows outside", {"contract", "map", "fill"}}, {"streamed", {"map", "contract"}},
      {"chunk 4", {"contract", "scatter", "sort"}}, {"taps 1", {"contract"}}, {"stage 16", {"contract"}},
      {"mma m16n8k16.f16", {"contract"}}, {"ahead 3 j", {"contract", "map", "reduce"}},
      {"claimed", {"contract", "map", "fill"}}};
  for (const char* form : {"contract", "map", "reduce", "scan", "fill", "gather", "scatter", "sort"})
    for (const auto& [part, forms] : forms_of) {
      const std::string line = fmt::format("group C\n  {} C  n j  {}", form, part);
      CAPTURE(line);
      std::string message;
      const bool read = codegen::parse_groups(line, plan.program, message).has_value();
      CHECK(read == (std::find(forms.begin(), forms.end(), form) != forms.end()));
      CHECK(message.empty() == read);
      // A line that cannot be read has another diagnostic than one that does not fit, and neither hides the other.
      codegen::PlanFault fault;
      const auto given = codegen::parse_groups(codegen::lines_of(line), plan.program, fault);
      REQUIRE(given);
      CHECK(given->front().leaves.front().misfit == message);
      CHECK_FALSE(codegen::parse_groups(line + "  conjured", plan.program, message));
      CHECK(message.find("`conjured`") != std::string::npos);
    }
}

TEST_CASE("a staged leaf has nothing else of a contract") {
  const codegen::Plan plan = plan_of(matmul, {{"M", 8}, {"N", 8}, {"K", 8}});
  for (const char* line : {"chunk 4  stage 16", "stage 16  chunk 4", "stage 16  rows outside", "ahead 2 j  stage 16"}) {
    std::string message;
    CHECK_FALSE(
        codegen::parse_groups(fmt::format("group C\n  contract C  m i  n j  k k  {}", line), plan.program, message));
    CHECK(message == "a staged leaf has one form only");
  }
}

TEST_CASE("pixels of a convolution are one m of a staged leaf, which others have not") {
  const codegen::Plan plan = plan_of(
      convolution, {{"N", 32}, {"H", 56}, {"W", 56}, {"CI", 64}, {"CO", 64}, {"R", 3}, {"S", 3}}, false, "cuda:sm_90a");
  REQUIRE(plan.groups.size() == 1);
  const codegen::Compute& leaf = plan.groups[0].body[0];
  CHECK(leaf.is<codegen::forms::Staged>());
  CHECK(leaf.all_of_m() == std::vector<std::string>{"n", "y", "x"});
  CHECK(leaf.n == "c");
  std::string message;
  const auto groups = codegen::parse_groups(print(plan), plan.program, message);
  REQUIRE(groups);
  CHECK(*groups == plan.groups);
  CHECK_FALSE(codegen::parse_groups("group O\n  map O  m y x  n c", plan.program, message));
  CHECK(message == "`m` is one index, unless the leaf is a `contract`");
  CHECK_FALSE(codegen::parse_groups("group O\n  contract O  m y  n x c  k d", plan.program, message));
  CHECK(message == "`n` is one index, unless the leaf is staged");
}

TEST_CASE("what one factor alone has is one side of a tile, in the order in which its elements lie side by side") {
  const char* const text =
      "function (A[N, J, M, I], B[K, M, N, L]) -> (C) { C[l, k, j, i: L, K, J, I] = +(A[n, j, m, i] * B[k, m, n, l]); }";
  const codegen::Plan plan =
      plan_of(text, {{"N", 24}, {"J", 36}, {"M", 32}, {"I", 36}, {"K", 36}, {"L", 36}}, false, "cuda:sm_90a");
  REQUIRE(plan.groups.size() == 1);                    // no copies
  const codegen::Compute& leaf = plan.groups[0].body[0];
  REQUIRE(leaf.is<codegen::forms::Staged>());
  CHECK(leaf.all_of_n() == std::vector<std::string>{"j", "i"});
  CHECK(leaf.all_of_m() == std::vector<std::string>{"k", "l"});
  std::string message;
  const auto groups = codegen::parse_groups(print(plan), plan.program, message);
  REQUIRE(groups);
  CHECK(*groups == plan.groups);
}

TEST_CASE("on a GPU operands whose neighbours are batches are copied, if they are read often") {
  const char* const text =
      "function (A[M, K, B], W[K, N, B]) -> (C) { C[m, n, b: M, N, B] = +(A[m, k, b] * W[k, n, b]); }";
  const auto copies = [&](std::int64_t rows, const char* target) {
    const codegen::Plan plan = plan_of(text, {{"M", rows}, {"N", rows}, {"K", 512}, {"B", 64}}, false, target);
    return std::ranges::count_if(plan.directives,
        [](const codegen::Directive& d) { return std::holds_alternative<codegen::directives::Copy>(d); });
  };
  CHECK(copies(512, "cuda:sm_90a") > 0);
  CHECK(copies(512, "opencl") > 0);
  CHECK(copies(32, "cuda:sm_90a") == 0);
}

TEST_CASE("few columns are one thread's, however the other factor lies") {
  const auto leaf = [](const char* text, std::int64_t columns) {
    return plan_of(text, {{"M", 16384}, {"N", columns}, {"K", 4096}}, false, "cuda:sm_90a").groups.front().body.front();
  };
  // Threads with an output each would read A again for each column.
  const char* const columns_first = "function (A[K, M], B[K, N]) -> (C) { C[i, j: M, N] = +(A[k, i] * B[k, j]); }";
  for (const char* const text : {matmul, columns_first})
    for (const std::int64_t columns : {2, 4, 7}) {
      const codegen::Compute few = leaf(text, columns);
      CAPTURE(columns);
      REQUIRE(few.is<codegen::forms::Staged>());
      CHECK(few.lanes * few.vectors >= columns);
      CHECK(few.lanes * few.vectors <= 8);
    }
  CHECK(leaf(columns_first, 20).is<codegen::forms::Staged>());
  CHECK(leaf("function (A[K, M], B[K, N]) -> (C) { C[i, j: M, N] = >(A[k, i] * B[k, j] + k); }", 4)
          .is<codegen::forms::Contract>());
}

TEST_CASE("what joins values of both sides is staged, whatever it is, with what is read at the element itself") {
  const auto leaf = [](const std::string& value, const char* how) {
    const std::string text = "function (A[M, K], B[N, K], V[K], D[M, N]) -> (C) { C[i, j: M, N] = " + std::string(how) +
        "(" + value + "); }";
    return plan_of(text.c_str(), {{"M", 2048}, {"N", 2048}, {"K", 128}}, false, "cuda:sm_90a").groups.back().body.front();
  };
  for (const char* const value : {"abs(A[i, k] - B[j, k])", "V[k] * tanh(A[i, k] + B[j, k])",
           "A[i, k] > B[j, k] ? D[i, j] : 0", "exp(A[i, k]) / B[j, k]"})
    for (const char* const how : {"+", ">", "<"}) {
      CAPTURE(value);
      CHECK(leaf(value, how).is<codegen::forms::Staged>());
    }
  CHECK(leaf("abs(A[i, k] - B[j, k]) + k", "+").is<codegen::forms::Contract>());
}

TEST_CASE("parts of a staged sum are long enough to be staged") {
  const codegen::Plan plan = plan_of(
      "function (D[N, Q, S], B[N, K, S, Z]) -> (A) { A[k, x: K, Q + Z - 1] = +(D[n, x - z, s] * B[n, k, s, z]); }",
      {{"N", 88}, {"Q", 1034}, {"S", 83}, {"K", 20}, {"Z", 5}}, false, "cuda:sm_90a");
  int staged = 0;
  for (const codegen::Group& group : plan.groups)
    for (const codegen::Compute& leaf : group.body) staged += leaf.is<codegen::forms::Staged>();
  CHECK(staged == 1);
}

TEST_CASE("on a GPU an operand that threads read again and across their outputs is copied, one that they read once not") {
  const auto copied = [](const char* text, const Sizes& sizes) {
    std::vector<std::string> operands;
    for (const codegen::Directive& one : plan_of(text, sizes, false, "cuda:sm_90a").directives)
      if (const auto* copy = std::get_if<codegen::directives::Copy>(&one)) operands.push_back(copy->operand);
    return operands;
  };
  const Sizes sizes{{"M", 3}, {"N", 62}, {"K", 269}, {"L", 530}, {"B", 5}};
  CHECK(copied(
            "function (A[M, L, B, K], D[M, N, B]) -> (C) { C[n, k, l, b: N, K, L, B] = +(A[m, l, b, k] * D[m, n, b]); }",
            sizes) == std::vector<std::string>{"A"});
  CHECK(copied("function (A[N, K, L], D[N, K, L]) -> (C) { C[n, l: N, L] = +(A[n, k, l] * D[n, k, l]); }", sizes).empty());
  CHECK(copied("function (A[N, L, K], D[N, L, K]) -> (C) { C[n, l: N, L] = +(A[n, l, k] * D[n, l, k]); }", sizes).empty());
}

TEST_CASE(
    "tiles of a staged leaf are as small as a machine's multiprocessors ask, and stages hold a block's shared memory") {
  const auto outputs = [](const codegen::Plan& plan) {
    const codegen::Compute& leaf = plan.groups.front().body.front();
    REQUIRE(leaf.is<codegen::forms::Staged>());
    return plan.groups.front().threads * leaf.rows * leaf.vectors;
  };
  const auto of = [&](std::int64_t side) {
    return outputs(plan_of(matmul, {{"M", side}, {"N", side}, {"K", 500}}, false, "cuda:sm_90a"));
  };
  CHECK(of(4096) == 128 * 128);
  CHECK(of(1000) == 64 * 64);
}

TEST_CASE("lanes run over the output's unit stride, rows over an index the other operand lacks") {
  const codegen::Plan plan = plan_of(matmul, {{"M", 512}, {"N", 512}, {"K", 512}});
  REQUIRE(plan.groups.size() == 1);
  const codegen::Compute& leaf = plan.groups[0].body[0];
  CHECK(leaf.is<codegen::forms::Contract>());
  CHECK(leaf.n == "j");
  CHECK(leaf.m() == "i");
  CHECK(leaf.k == std::vector<std::string>{"k"});
  CHECK(leaf.rows * leaf.vectors >= 10);
  CHECK(leaf.rows * leaf.vectors + leaf.vectors + 1 <= 31);
}

TEST_CASE("an operand that is read across its unit stride is copied once, if it is read often") {
  CHECK(plan_of(transposed, {{"M", 512}, {"N", 512}, {"K", 512}}).groups.size() == 2);
  CHECK(plan_of(transposed, {{"M", 2}, {"N", 512}, {"K", 512}}).groups.size() == 1);
}

TEST_CASE("softmax and its gradient are one launch of shared rows") {
  CHECK(plan_of(softmax, {{"M", 4000}, {"N", 1000}}).groups.size() == 1);
  CHECK(plan_of(softmax, {{"M", 4000}, {"N", 1000}}, true).groups.size() == 1);
}

TEST_CASE("on a GPU sums over rows are taken where the rows are read, and their parts added up in one launch") {
  const char* const scaled =
      "function (X[M, N], D[M, N]) -> (Y, G, H) { Q[i: M] = +(X[i, j] * X[i, j]); Y[i, j: M, N] = =(D[i, j] * Q[i]); G[j: N] = +(X[i, j] * Q[i] * D[i, j]); H[j: N] = +(D[i, j]); }";
  const codegen::Plan plan = plan_of(scaled, {{"M", 5001}, {"N", 97}}, false, "cuda:sm_90a");
  REQUIRE(plan.groups.size() == 2);
  CHECK(plan.groups[0].kept.size() == 2);
  CHECK(plan.groups[0].loops == std::vector<codegen::Loop>{{"i", 5, 1}});
  CHECK(plan.groups[1].locals.size() == 2);
  CHECK(plan.groups[1].loops.back().step == 32);       // lanes of a warp read side by side
  const codegen::Plan columns =
      plan_of("function (X[M, N]) -> (G) { G[j: N] = +(X[i, j]); }", {{"M", 5001}, {"N", 97}}, false, "cuda:sm_90a");
  CHECK(columns.groups[0].kept.empty());               // nothing else runs by these rows
}

TEST_CASE("attention that reads bf16 is a pass on tensor cores, also where the text widens its queries first") {
  const std::string text =
      "function (bf16 Q[H, T, D], bf16 K[H, S, D], bf16 V[H, S, E]) -> (O) { W = f32(Q); X[h, t, s: H, T, S] = +(W[h, t, d] * K[h, s, d]); M[h, t: H, T] = >(X[h, t, s]);"
      " P[h, t, s: H, T, S] = =(exp(X[h, t, s] - M[h, t])); Z[h, t: H, T] = +(P[h, t, s]); U[h, t, e: H, T, E] = +(P[h, t, s] * V[h, s, e]); O[h, t, e: H, T, E] = =(U[h, t, e] / Z[h, t]); }";
  const Sizes sizes{{"H", 8}, {"T", 2048}, {"S", 2048}, {"D", 64}, {"E", 64}};
  const std::string ampere = print(plan_of(text, sizes, false, "cuda:sm_80")),
                    hopper = print(plan_of(text, sizes, false, "cuda:sm_90a")),
                    before = print(plan_of(text, sizes, false, "cuda:sm_75"));
  CHECK(ampere.find("inline W\n") != std::string::npos);
  CHECK(ampere.find("mma m16n8k16.bf16") != std::string::npos);
  CHECK(hopper.find("mma m64n8k16.bf16") != std::string::npos);
  CHECK(before.find("mma") == std::string::npos);
}

TEST_CASE("a long sum into one element has two stages") { CHECK(plan_of(total, {{"N", 1000003}}).groups.size() == 2); }

TEST_CASE("on a GPU a map is turned where it reads across what it writes") {
  const auto turned = [](const char* text, const Sizes& sizes) {
    const codegen::Plan plan = plan_of(text, sizes, false, "cuda:sm_90a");
    const auto* map = plan.groups.back().body.front().as<codegen::forms::Map>();
    return map && map->turned;
  };
  const char* const transpose = "function (A[M, N]) -> (B) { B[j, i: N, M] = =(A[i, j]); }";
  CHECK(turned(transpose, {{"M", 1000}, {"N", 1001}}));
  CHECK_FALSE(turned(transpose, {{"M", 1000}, {"N", 3}}));  // what is read across shares its sectors
  CHECK(turned(
      "function (A[M, N], C[N, M]) -> (B) { B[j, i: N, M] = =(exp(A[i, j]) + C[j, i]); }", {{"M", 100}, {"N", 77}}));
  CHECK(turned("function (A[P, Q, R, S]) -> (B) { B[s, q, p, r: S, Q, P, R] = =(A[p, q, r, s]); }",
      {{"P", 9}, {"Q", 5}, {"R", 40}, {"S", 33}}));
  CHECK_FALSE(turned(
      "function (A[P, Q, R]) -> (B) { B[q, p, r: Q, P, R] = =(A[p, q, r]); }", {{"P", 90}, {"Q", 50}, {"R", 40}}));
  // a diagonal lies along nothing
  CHECK_FALSE(turned("function (A[M, N]) -> (B) { B[i, j: M, N] = =(A[i, j] + A[j, j]); }", {{"M", 100}, {"N", 100}}));
}

TEST_CASE("rows of a thread run along the window of a convolution that does not mix channels") {
  const auto leaf = [](const char* text, const Sizes& sizes) {
    return plan_of(text, sizes, false, "cuda:sm_90a").groups.back().body.front();
  };
  const codegen::Compute depthwise = leaf(
      "function (I[N, H, W, C], K[KH, KW, C]) -> (O) { O[n, y, x, c: N, H, W, C] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c]); }",
      {{"N", 32}, {"H", 57}, {"W", 55}, {"C", 100}, {"KH", 3}, {"KW", 5}});
  CHECK(depthwise.m() == "x");                         // five taps share more than three
  CHECK(depthwise.k.back() == "i");
  CHECK(depthwise.rows == 8);
  const codegen::Compute strided =
      leaf("function (I[N, W, C], K[KW, C]) -> (O) { O[n, x, c: N, W/3, C] = +(I[n, 3*x + i, c] * K[i, c]); }",
          {{"N", 640}, {"W", 300}, {"C", 100}, {"KW", 3}});
  CHECK(strided.m() != "x");                           // windows that touch share nothing
}

TEST_CASE("threads of a depthwise filter's gradient have all taps, blocks those of a row, in parts by images and lines") {
  const Sizes sizes{{"N", 32}, {"H", 60}, {"W", 57}, {"C", 100}, {"KH", 3}, {"KW", 5}};
  const codegen::Plan last = plan_of(
      "function (I[N, H, W, C], D[N, H, W, C]) -> (K) { K[j, i, c: 3, 5, C] = +(I[n, y + j - 1, x + i - 2, c] * D[n, y, x, c]); }",
      sizes, false, "cuda:sm_90a");
  REQUIRE(last.groups.size() == 2);                    // parts of parts are added up at once
  const codegen::Compute& threads = last.groups.front().body.front();
  CHECK(threads.is<codegen::forms::Contract>());
  CHECK(threads.all_of_m() == std::vector<std::string>{"j", "i"});
  CHECK(threads.rows == 15);
  CHECK(threads.k == std::vector<std::string>{"x", "y"});
  CHECK(last.directives.size() == 4);                  // and what adds up 32 x 15 parts is cut, within one launch
  const codegen::Plan first = plan_of(
      "function (I[N, C, H, W], D[N, C, H, W]) -> (K) { K[c, j, i: C, 3, 5] = +(I[n, c, y + j - 1, x + i - 2] * D[n, c, y, x]); }",
      sizes, false, "cuda:sm_90a");
  // Of neighbours in memory each thread has one, and goes along the other direction of the window.
  REQUIRE(first.groups.size() == 3);                   // the first fills elements that the border leaves without points
  const codegen::Compute& column = first.groups[1].body.front();
  CHECK(column.is<codegen::forms::Contract>());
  CHECK(column.m() == "j");
  CHECK(column.rows == 3);
  CHECK(column.n.starts_with("x"));
  CHECK(column.k.back() == "y");
  // a window of one direction leaves nothing to go along
  const codegen::Plan lines = plan_of(
      "function (I[N, C, W], D[N, C, W]) -> (K) { K[c, i: C, 5] = +(I[n, c, x + i - 2] * D[n, c, x]); }",
      {{"N", 320}, {"W", 57}, {"C", 2000}}, false, "cuda:sm_90a");
  const codegen::Compute& block = lines.groups.front().body.front();
  CHECK(block.is<codegen::forms::Reduce>());
  CHECK(block.m() == "i");
  CHECK(block.rows == 5);
  CHECK(lines.groups.front().threads == 32);           // 57 columns, of many rows
}

TEST_CASE("one step from a contraction on tensor cores lie its other warps, depths and buffers, and the staged one") {
  const lang::File file =
      test::parsed("function (bf16 A[M, K], bf16 B[K, N]) -> (C) { C[i, j: M, N] = +(f32(A[i, k]) * f32(B[k, j])); }");
  codegen::Request request = test::request_for({{"M", 2000}, {"N", 2100}, {"K", 520}}, "cuda:sm_80");
  lang::Diagnostics diagnostics;
  const auto stages = codegen::compile(file, request, codegen::Until::Plan, diagnostics);
  REQUIRE(stages);
  const auto cores = [](const codegen::Stages& s) {
    return s.plan->groups.back().body.front().as<codegen::forms::TensorCores>();
  };
  REQUIRE(cores(*stages));
  int depths = 0, warps = 0, buffers = 0, staged = 0;
  for (const std::string& text : codegen::moves(*stages, request.target)) {
    CAPTURE(text);
    request.plan = codegen::PlanText{text, 0};
    lang::Diagnostics of_it;
    const auto other = codegen::compile(file, request, codegen::Until::Plan, of_it);
    if (!other || other->plan->groups.size() != stages->plan->groups.size()) continue;
    const auto* now = cores(*other);
    staged += other->plan->groups.back().body.front().is<codegen::forms::Staged>();
    if (!now) continue;
    depths += now->depth != cores(*stages)->depth, warps += now->threads() != cores(*stages)->threads(),
        buffers += now->buffers != cores(*stages)->buffers;
    CHECK(other->plan->groups.back().threads == now->threads());
  }
  CHECK(depths > 0);
  CHECK(warps > 0);
  CHECK(buffers > 0);
  CHECK(staged > 0);
}

TEST_CASE("a turned block has no more rows than lanes, however narrow the vectors are") {
  // Sums of pairs, whose blocks become one vector wide.
  const std::string text =
      "function (A[987], B[68, 91, 10]) -> (C) { C[n1, n0, m0: 68, 91, 960] = +(A[m0 + 3*k0] * B[n1, n0, k0]); }";
  int turned = 0;
  for (const char* target : {"cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4"}) {
    CAPTURE(target);
    codegen::Request request = test::request_for({}, target, 1);
    request.derivatives.front().wrt = {"A"};
    const codegen::Stages stages = test::compiled(text, request, codegen::Until::Plan);
    for (const codegen::Group& group : stages.plan->groups)
      for (const codegen::Compute& leaf : group.body)
        if (leaf.block() && leaf.block()->turned) {
          ++turned;
          CHECK(leaf.rows <= leaf.lanes);
        }
  }
  CHECK(turned > 0);
}
