// Gradients of filters that do not mix channels, on a simulated GPU, against the interpreter: threads, or blocks that
// fold, have several taps each, which bound different pixels. Channels last and first; strides, dilations, and padding
// up to where taps see nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/device.h"
#include "tests/backends/programs.h"
#include "tests/codegen/compiled.h"
#include "tests/simulated/check_run.h"

namespace tilec::test {
namespace {

using namespace codegen;
using backends::Random;

struct Drawn { std::string text; Sizes sizes; bool channels_last; };

Drawn gradient_of_filter(Random& random) {
  Drawn d{"", {}, random.chance(2)};
  d.sizes = {{"N", random.between(2, 3)}, {"C", random.between(1, 40)}, {"H", random.between(2, 12)},
      {"W", random.between(2, 70)}};
  const auto pixel = [&](const char* out, const char* tap) {
    return fmt::format(
        "{} * {} + {} * {} - {}", random.between(1, 2), out, random.between(1, 2), tap, random.between(0, 4));
  };
  const std::string y = pixel("y", "j"), x = pixel("x", "i");
  const int taps = random.between(2, 5), columns = random.between(2, 8), height = random.between(2, 12),
            width = random.between(2, 70);
  d.text = fmt::format(
      fmt::runtime(d.channels_last
              ? "function f(I[N, H, W, C], D[N, {4}, {5}, C]) -> (K) {{ K[j, i, c: {2}, {3}, C] = +(I[n, {0}, {1}, c] * D[n, y, x, c]); }}"
              : "function f(I[N, C, H, W], D[N, C, {4}, {5}]) -> (K) {{ K[c, j, i: C, {2}, {3}] = +(I[n, c, {0}, {1}] * D[n, c, y, x]); }}"),
      y, x, taps, columns, height, width);
  return d;
}

// None where the plan does not fit: a tap that sees nothing has no parts.
std::optional<Stages> made_of(const Drawn& d, Until until, const std::string& plan, Request& request) {
  request = request_for(d.sizes, *runtime::target_here("cuda"));
  request.plan = PlanText{plan};
  lang::Diagnostics diagnostics;
  return codegen::compile(parsed(d.text), request, until, diagnostics);
}

// Some values of either tap, whatever the leaf had; a block that folds has all.
bool give_taps(Plan& plan, Random& random) {
  for (Group& group : plan.groups)
    for (Compute& leaf : group.body) {
      const bool folds = leaf.is<forms::Reduce>();
      // Threads that go along x have no rows that bound it.
      const std::string tap = (folds || !leaf.n.starts_with("x")) && random.chance(2) ? "i" : "j";
      if ((!folds && !leaf.is<forms::Contract>()) || leaf.k.empty()) continue;
      const auto loops = std::erase_if(group.loops, [&](const Loop& loop) { return loop.index == tap; });
      if (!std::erase(leaf.outer, tap) && !loops) continue;
      if (!leaf.m().empty()) leaf.outer.push_back(leaf.m());
      const auto& s = std::get<poly::Statement>(plan.program.nodes[static_cast<std::size_t>(leaf.node)]);
      const auto at = std::ranges::find(s.indices, tap) - s.indices.begin();
      const auto taps = s.domain[static_cast<std::size_t>(at)].extent->get();
      leaf.set_m(tap), leaf.rows = folds ? taps : random.between(2, 8);
      return true;
    }
  return false;
}

}  // namespace

TEST_CASE("threads and blocks that have some taps each of a filter's gradient are right") {
  Random random(5);
  // Of the images, or of neighbours in memory, each is a part, or of both.
  const std::string parts[] = {"", "split K  over n  by 1\n", "split K  over x  by 1\n",
      "split K  over x  by 1\nsplit K_parts  over n  by 1\n"};
  int threads = 0, folds = 0, columns = 0;
  for (int n = 0; n < 48; ++n) {
    const Drawn d = gradient_of_filter(random);
    CAPTURE(d.text);
    const std::string whole = "no split\n";
    Request request;
    const std::string& cut = parts[random.between(0, 3)];
    auto stages = cut.empty() ? std::nullopt : made_of(d, Until::Plan, cut, request);
    const bool by_columns = stages && cut.find("over x") != std::string::npos;
    if (!stages) stages = made_of(d, Until::Plan, whole, request);
    REQUIRE(stages);
    if (!give_taps(*stages->plan, random)) continue;
    const bool splits = std::ranges::any_of(stages->plan->directives,
        [](const Directive& one) { return std::holds_alternative<directives::Split>(one); });
    const std::string plan = (splits ? "" : whole) + print(*stages->plan);
    CAPTURE(plan);
    stages = made_of(d, Until::Lowered, plan, request);
    REQUIRE(stages);
    for (const Group& group : stages->plan->groups)
      for (const Compute& leaf : group.body)
        if (leaf.m() == "i" || leaf.m() == "j") ++(leaf.is<forms::Reduce>() ? folds : threads);
    columns += by_columns;
    check_run(*stages, request, random);
  }
  CHECK(threads > 3);
  CHECK(folds > 3);
  CHECK(columns > 3);
}

// As chosen where images are large; where they are small, parts of any length, and either direction innermost.
TEST_CASE("threads that have all taps of both directions keep what steps of the window share, and leave out the border") {
  Request request;
  const auto large = made_of(
      {"function f(I[N, H, W, C], D[N, H, W, C]) -> (K) { K[j, i, c: 3, 3, C] = +(I[n, y + j - 1, x + i - 1, c] * D[n, y, x, c]); }",
          {{"N", 32}, {"H", 56}, {"W", 56}, {"C", 128}}, true},
      Until::Plan, "", request);
  REQUIRE(large);
  CHECK(print(*large->plan).find("contract K_parts_parts  over x_s n_s  m i j  n c  k y x  block 9x1") !=
      std::string::npos);
  Random random(23);
  int held = 0, masked = 0;
  for (int n = 0; n < 16; ++n) {
    const bool deep = n % 6 == 5;
    const int taps = random.between(2, deep ? 3 : 5), columns = random.between(2, deep ? 3 : 5);
    const auto pixel = [&](const char* out, const char* tap, int many) {
      const int apart = random.between(1, 2);
      return fmt::format("{} * {} + {} * {} - {}", random.between(1, 2), out, apart, tap,
          random.between(0, apart * (many - 1)));
    };
    const std::string z = deep ? "z + d - 1, " : "";
    const Drawn d{
        fmt::format(
            "function f(I[N, {0}H, W, C], D[N, {1}9, 11, C]) -> (K) {{ K[{2}j, i, c: {3}{4}, {5}, C] = +(I[n, {6}{7}, {8}, c] * D[n, {9}y, x, c]); }}",
            deep ? "4, " : "", deep ? "4, " : "", deep ? "d, " : "", deep ? "3, " : "", taps, columns, z,
            pixel("y", "j", taps), pixel("x", "i", columns), deep ? "z, " : ""),
        {{"N", 2}, {"C", random.between(1, 40)}, {"H", random.between(9, 14)}, {"W", random.between(9, 14)}}, true};
    const bool by_x = random.chance(2);
    const std::string plan = fmt::format(
        "split K  over n  by 1\nsplit K_parts  over {0}  by {1}\ngroup K_parts_parts  threads 128\n"
        "  contract K_parts_parts  over {0}_s n_s  m {2}{3}  n c  k {4}{5}  block {6}x1  lanes 128\n",
        by_x ? "x" : "y", random.between(2, 5), deep ? "d " : "", by_x ? "i j" : "j i", deep ? "z " : "",
        by_x ? "y x" : "x y", taps * columns * (deep ? 3 : 1));
    CAPTURE(d.text);
    CAPTURE(plan);
    const auto stages = made_of(d, Until::Lowered, plan, request);
    if (!stages) continue;                             // a tap that sees nothing
    const std::string text = print(stages->lowered->steps.front().loops);
    held += text.find("register held") != std::string::npos;
    masked += text.find("register edge") != std::string::npos;
    check_run(*stages, request, random, false);
  }
  CHECK(held > 3);
  CHECK(masked > 3);
}

// Groups of channels: what lies side by side is one access where it can be; numbers that are not finite stay where they
// are, also at the border.
TEST_CASE("threads that have all outputs of a group, for some places of its window, are right") {
  Random random(37);
  int wide = 0, masked = 0, halves = 0;
  for (int n = 0; n < 16; ++n) {
    const bool narrow = random.chance(3), last = !random.chance(3);
    const int taps = random.between(2, 4), columns = random.between(1, 3), outputs = random.between(2, 8),
              places = random.between(2, 8), moves = random.between(1, 2);
    const std::string y = fmt::format("{} * y + {} * j - {}", moves, random.between(1, 2), random.between(0, taps)),
                      x = fmt::format("x + i - {}", random.between(0, columns - 1)),
                      value = narrow ? "f32(I[{0}]) * f32(K[{1}])" : "I[{0}] * K[{1}]", type = narrow ? "bf16 " : "";
    const std::string of_i = last ? fmt::format("n, {}, {}, g, k", y, x) : fmt::format("n, g, k, {}, {}", y, x),
                      of_k = last ? "j, i, k, g, c" : "g, c, k, j, i";
    const Drawn d{fmt::format("function f({0}I[{1}], {0}K[{2}]) -> (Y) {{ Y[{3}] = +({4}); }}", type,
                      last ? "N, H, W, G, C" : "N, G, C, H, W",
                      fmt::format(fmt::runtime(last ? "{0}, {1}, C, G, O" : "G, O, C, {0}, {1}"), taps, columns),
                      fmt::format(fmt::runtime(last ? "n, y, x, g, c: N, {}, W, G, O" : "n, g, c, y, x: N, G, O, {}, W"),
                          random.between(9, 14)),
                      fmt::format(fmt::runtime(value), of_i, of_k)),
        {{"N", 2}, {"G", random.between(2, 9)}, {"C", random.between(1, 9)}, {"O", outputs},
            {"H", random.between(9, 20)}, {"W", random.between(3, 9)}},
        last};
    const std::string plan = fmt::format(
        "no split\nno copy\ngroup Y  threads 128\n  contract Y  over n {0}  m c y  n {1}  k i j k  block {2}x1  lanes 128\n",
        last ? "x" : "g", last ? "g" : "x", places * outputs);
    CAPTURE(d.text);
    CAPTURE(plan);
    Request request;
    const auto stages = made_of(d, Until::Lowered, plan, request);
    if (!stages) continue;                             // places where no tap is
    const std::string text = print(stages->lowered->steps.front().loops);
    wide += text.find("aligned") != std::string::npos;
    masked += text.find("register edge") != std::string::npos;
    halves += narrow;
    check_run(*stages, request, random, false);
  }
  CHECK(wide > 3);
  CHECK(masked > 3);
  CHECK(halves > 1);
}

TEST_CASE("a stage begins and ends where strides say, at multiples of nothing") {
  Random random(7);
  const Drawn d{
      "function f(A[40, K1, B], D[B, N, 14]) -> (K) { K[b, n, k, l: B, N, 9, K1] = +(A[3*m + k - 4, l, b] * D[b, n, m]); }",
      {{"K1", 70}, {"B", 3}, {"N", 20}}, true};
  const std::string plan =
      "no split\nno copy\ngroup K  threads 128\n  contract K  over b k  m n  n l  k m  block 4x4  lanes 8  stage 8\n";
  Request request;
  const auto stages = made_of(d, Until::Lowered, plan, request);
  REQUIRE(stages);
  check_run(*stages, request, random);
}

TEST_CASE("a stage of a triangle has zeros beside it, and what is not finite is computed again") {
  Random random(9);
  int several = 0;
  for (int n = 0; n < 24; ++n) {
    const std::string from = random.chance(2) ? "s <= t" : fmt::format("s <= t + {}", random.between(1, 9));
    Drawn d{fmt::format("function f(S[B, T, U], V[B, U, E]) -> (O) {{ O[b, t, e: B, T, E] = +({}), {}; }}",
                random.chance(2) ? "S[b, t, s] * V[b, s, e]"
                                 : "isfinite(V[b, s, e]) ? S[b, t, s] * V[b, s, e] : 0.0 / 0.0",
                from),
        {{"B", random.between(1, 2)}, {"T", random.between(20, 90)}, {"E", random.between(24, 70)}}, true};
    d.sizes["U"] = d.sizes["T"] + random.between(0, 9);
    const bool batches = d.sizes["B"] > 1;
    several += batches;
    const std::string plan = fmt::format(
        "no split\nno copy\nno factor\ngroup O  threads 128\n"
        "  contract O  {}m t  n e  k s  block 4x4  lanes {}  stage {}\n",
        batches ? "over b  " : "", random.chance(2) ? 8 : 16, random.chance(2) ? 8 : 16);
    CAPTURE(d.text);
    CAPTURE(plan);
    Request request;
    const auto stages = made_of(d, Until::Lowered, plan, request);
    REQUIRE(stages);
    check_run(*stages, request, random, false);
  }
  CHECK(several > 0);
}

// As chosen where images are large, and any two of the cuts where they are small; stages are of n, or of all pixels.
TEST_CASE("the gradient of a filter that mixes channels is cut along two indices, in tiles and on tensor cores") {
  const auto text = [](const char* type, int height, int width) {
    return fmt::format(
        "function f({0} I[N, H, W, C], {0} D[N, {1}, {2}, O]) -> (f32 K) {{ K[j, i, c, o: 3, 3, C, O] = +(f32(I[n, 2*y + j - 1, 2*x + i - 1, c]) * f32(D[n, y, x, o])); }}",
        type, height, width);
  };
  Request request;
  const auto large = made_of(
      {text("f32", 28, 28), {{"N", 32}, {"H", 56}, {"W", 56}, {"C", 64}, {"O", 128}}, true}, Until::Plan, "", request);
  REQUIRE(large);
  CHECK(std::ranges::count_if(large->plan->directives,
            [](const Directive& one) { return std::holds_alternative<directives::Split>(one); }) == 2);
  CHECK(print(*large->plan).find("contract K_parts_parts  over n_s y_s  m j i c  n o  k n y x  block") !=
      std::string::npos);
  Random random(13);
  const std::string cuts[] = {"n", "y", "x"};
  for (int n = 0; n < 8; ++n) {
    const bool cores = n % 2;
    const Drawn d{text(cores ? "bf16" : "f32", 5, 4),
        {{"N", random.between(3, 5)}, {"H", 9}, {"W", random.between(7, 8)}, {"C", random.between(5, 40)},
            {"O", random.between(24, 80)}}, true};
    const int one = random.between(0, 2), other = (one + random.between(1, 2)) % 3;
    const std::string plan = fmt::format(
        "split K  over {0}  by 2\nsplit K_parts  over {1}  by 2\ngroup K_parts_parts  threads 128\n"
        "  contract K_parts_parts  over {1}_s {0}_s  m j i c  n o  k n y x  block {2}{3}\n",
        cuts[one], cuts[other],
        cores ? "2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x2" : "4x4  lanes 16  stage 8",
        cores ? "  buffers 3  across" : random.chance(2) ? "  across" : "");
    CAPTURE(d.text);
    CAPTURE(plan);
    const auto stages = made_of(d, Until::Lowered, plan, request);
    REQUIRE(stages);
    check_run(*stages, request, random);
  }
}

// Channels of the last group are fewer, or its elements are none: no sum reaches these, and parts neither.
TEST_CASE("the gradient of a filter of groups is cut, whose elements are several indices") {
  const auto text = [](int channels) {
    return fmt::format(
        "function f(I[N, H, W, B], D[N, H, W, C]) -> (K) {{ K[j, i, k, {0}*g + c: 3, 3, {0}, C] = +(I[n, y + j - 1, x + i - 1, {0}*g + k] * D[n, y, x, {0}*g + c]), 0 <= c < {0}; }}",
        channels);
  };
  const auto splits = [](const Stages& stages) {
    return std::ranges::any_of(stages.plan->directives,
        [](const Directive& one) { return std::holds_alternative<directives::Split>(one); });
  };
  Request request;
  const auto large =
      made_of({text(8), {{"N", 32}, {"H", 28}, {"W", 28}, {"B", 256}, {"C", 256}}, true}, Until::Plan, "", request);
  REQUIRE(large);
  CHECK(splits(*large));
  Random random(17);
  for (int n = 0; n < 6; ++n) {
    const int channels = random.between(3, 9);
    const Drawn d{text(channels),
        {{"N", random.between(3, 5)}, {"H", 6}, {"W", random.between(7, 9)}, {"B", 3 * channels},
            {"C", random.between(2 * channels, 3 * channels + 2)}},
        true};
    CAPTURE(d.text);
    const auto stages = made_of(d, Until::Lowered, n % 2 ? "split K  over n  by 2\n" : "split K  over y  by 4\n", request);
    REQUIRE(stages);
    check_run(*stages, request, random);
  }
}

TEST_CASE("scores within chunks are squares for blocks of threads") {
  Random random(11);
  const Drawn d{
      "function f(Q[T, D], K[T, D], V[T, E]) -> (O) { O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t; }",
      {{"T", 256}, {"D", 64}, {"E", 8}}, true};
  Request request;
  const auto stages = made_of(d, Until::Lowered, "chunks O  over s  by 64\nfactor O_near  over d\n", request);
  REQUIRE(stages);
  const std::string plan = print(*stages->plan);
  CAPTURE(plan);
  CHECK(plan.find("fill O_near_sums") == std::string::npos);
  CHECK(plan.find("contract O_near_sums  over t_c  m t  n s  k d  block") != std::string::npos);
  check_run(*stages, request, random);
}

TEST_CASE("maps of one grid that read the same elements are one thread's, and few blocks stay apart") {
  Random random(23);
  const auto text = [](const char* element, const char* other) {
    return fmt::format(
        "function f(X[N, D], C[M]) -> (Y) {{ E[n, {0}: N, D] = =(X[n, {0}] * C[i] - X[n, {1}]), 0 <= i < M; Y[n, {1}: N, D] = =(X[n, {1}] * C[i] + X[n, {0}]) default E; }}",
        element, other);
  };
  const auto kernels = [&](const std::string& of, int rows, int width) {
    CAPTURE(of);
    Request request;
    const Drawn d{of, {{"N", rows}, {"D", width}, {"M", 33}}, true};
    const auto stages = made_of(d, Until::Lowered, "", request);
    REQUIRE(stages);
    REQUIRE(stages->lowered->steps.size() == 1);
    check_run(*stages, request, random);
    return stages->lowered->steps[0].loops.functions.back().body.size();
  };
  CHECK(kernels(text("2*i", "2*i + 1"), 4000, 66) == 1);
  CHECK(kernels(text("i", "i + 33"), 4001, 66) == 1);
  CHECK(kernels(text("2*i", "2*i + 1"), 40, 66) == 2);
}

TEST_CASE("classes of one block each, of which two differ by numbers, are three blocks") {
  Random random(19);
  Request request;
  const auto stages = made_of(
      {"function f(A[3], B[4]) -> (T) { T[i: 4] = +(A[(i - k)/3] * B[k]); }", {}, true}, Until::Lowered, "", request);
  REQUIRE(stages);
  CHECK(stages->lowered->steps.size() == 1);
  check_run(*stages, request, random);
}

// Each class has its taps, its borders, and where sizes are odd its number of elements.
TEST_CASE("residue classes of a gradient are blocks of one launch") {
  Random random(17);
  int joined = 0, on_cores = 0, numbered = 0;
  for (int n = 0; n < 15; ++n) {
    const bool narrow = n % 3 == 2, plane = n % 2 == 0;
    const int taps = random.between(2, 5), stride = random.between(2, 3), pad = random.between(0, 2),
              high = random.between(5, 9),
              wide = narrow ? random.between(14, 20) : random.between(5, 12);
    const std::string type = narrow ? "bf16" : "f32";
    const auto height = plane ? "y" : fmt::format("{}*y + j - {}", stride, pad);
    const Drawn d{
        fmt::format(
            "function f({0} D[N, {1}, {2}, B], {0} K[{3}{4}, B, C]) -> (f32 O) {{ O[n, {5}, {6}*x + i - {7}, c: N, {8}, {9}, C] = +(f32(D[n, y, x, b]) * f32(K[{10}i, b, c])); }}",
            type, high, wide, plane ? "" : fmt::format("{}, ", taps), taps, height, stride, pad,
            plane ? high : high * stride, wide * stride + random.between(0, 2), plane ? "" : "j, "),
        {{"N", random.between(1, 3)}, {"B", narrow ? 32 * random.between(1, 2) : random.between(5, 40)},
            {"C", narrow ? 8 * random.between(7, 9) : random.between(20, 70)}},
        true};
    CAPTURE(d.text);
    Request request;
    const auto stages = made_of(d, Until::Lowered, random.chance(2) ? "" : "no pairs\n", request);
    REQUIRE(stages);
    const std::string plan = print(*stages->plan);
    CAPTURE(plan);
    for (const Step& step : stages->lowered->steps) {
      joined += step.groups.size() > 1;
      on_cores += step.groups.size() > 1 && plan.find("  mma ") != std::string::npos;
      numbered += !step.loops.tables.empty();
    }
    check_run(*stages, request, random);
  }
  CHECK(joined > 6);
  CHECK(on_cores > 0);
  CHECK(numbered > 0);
}

}  // namespace tilec::test
