// Executed inner points against valid points: what kernels of strided gradients run is what the statement has, to the
// point.
//
// bench/bench_points.py reads the lines `points …: executed E valid V idle I`.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <tuple>

#include "poly/count.h"
#include "tests/codegen/compiled.h"
#include "tests/codegen/points.h"

using namespace tilec;
using namespace tilec::codegen;
using test::Sizes;

namespace {

Stages lowered(const std::string& text, const Sizes& sizes, const char* target,
    const std::vector<std::string>& wrt = {}, const std::string& plan = "") {
  Request request = test::request_for(sizes, target);
  if (!wrt.empty()) request.derivatives.push_back({false, {}, wrt});
  if (!plan.empty()) request.plan = PlanText{plan, 0};
  return test::compiled(text, request, Until::Lowered);
}

std::int64_t valid_points(const poly::Program& bounded) {
  std::int64_t sum = 0;
  for (const poly::Node& node : bounded.nodes)
    if (const auto* statement = std::get_if<poly::Statement>(&node);
        statement && statement->aggregation != Aggregation::Assign)
      sum += poly::points(*statement).value();
  return sum;
}

// useful: points of one dimension that lie inside
struct Convolution { std::int64_t stride, dilation, taps, padding, extent, useful; };

// O[x] = sum over k of I[s x + d k - p] K[k], over `rank` spatial dimensions, 8 channels to 20.
std::string text_of(const Convolution& c, int rank) {
  std::string image, filter, index, out, out_sizes, place, tap;
  const std::int64_t extent = (c.extent + 2 * c.padding - c.dilation * (c.taps - 1) - 1) / c.stride + 1;
  for (int r = 0; r < rank; ++r) {
    image += fmt::format("X{}, ", r), filter += fmt::format("K{}, ", r);
    out += fmt::format("x{}, ", r), out_sizes += fmt::format("{}, ", extent);
    place += fmt::format("{}*x{} + {}*k{} - {}, ", c.stride, r, c.dilation, r, c.padding),
        tap += fmt::format("k{}, ", r);
  }
  return fmt::format("function (I[{}CI], K[{}CI, CO]) -> (O) {{ O[{}co: {}CO] = +(I[{}ci] * K[{}ci, co]); }}", image,
      filter, out, out_sizes, place, tap);
}

std::string with(std::string text, std::int64_t stride, std::int64_t dilation) {
  for (const auto& [letter, value] : {std::pair{'S', stride}, {'D', dilation}})
    for (std::size_t at; (at = text.find(letter)) != std::string::npos;) text.replace(at, 1, std::to_string(value));
  return text;
}

// Forward and filter gradient: their valid points, at most a hundredth over (a sum in parts adds a step per part and
// element), without a branch innermost. Channels fill vectors here: the last vector of 20 channels overlaps the one
// before, by choice of the schedule.
void check_contraction(const Convolution& c, int rank, const char* target, const std::vector<std::string>& wrt) {
  Sizes sizes{{"CI", 8}, {"CO", 32}};
  for (int r = 0; r < rank; ++r) sizes[fmt::format("X{}", r)] = c.extent, sizes[fmt::format("K{}", r)] = c.taps;
  CAPTURE(wrt.size());
  const Stages stages = lowered(text_of(c, rank), sizes, target, wrt);
  const std::int64_t valid = valid_points(*stages.bounded);
  const auto [executed, idle] = fold_steps(*stages.lowered);
  CHECK(valid == 8 * 32 * (rank == 1 ? c.useful : c.useful * c.useful));
  CHECK(executed >= valid);
  CHECK(static_cast<double>(executed) <= 1.01 * static_cast<double>(valid));
  for (const Step& step : stages.lowered->steps)
    for (const std::string& condition : innermost_branches(step.loops))
      FAIL_CHECK(step.kernel << " tests `" << condition << "` in an innermost loop");
}

void check_gradient(const Convolution& c, int rank, const char* target) {
  Sizes sizes{{"CI", 8}, {"CO", 20}};
  for (int r = 0; r < rank; ++r) sizes[fmt::format("X{}", r)] = c.extent, sizes[fmt::format("K{}", r)] = c.taps;
  const Stages stages = lowered(text_of(c, rank), sizes, target, {"I"});
  const std::int64_t valid = valid_points(*stages.bounded);
  const auto [executed, idle] = fold_steps(*stages.lowered);
  CHECK(valid == 8 * 20 * (rank == 1 ? c.useful : c.useful * c.useful));
  // A product in front of a window, where one was chosen, has every pair of elements once, those that leave the image
  // too.
  const bool pairs = print(*stages.plan).find("pairs dI") != std::string::npos;
  const std::int64_t planned = valid_points(stages.plan->program);
  CHECK(executed == (pairs ? planned : valid));
  CHECK(static_cast<double>(planned) <= 1.1 * static_cast<double>(valid));
  for (const Step& step : stages.lowered->steps)
    for (const std::string& condition : innermost_branches(step.loops))
      FAIL_CHECK(step.kernel << " tests `" << condition << "` in an innermost loop");
  if (std::string(target) == "cpu:x86-64-v4")
    fmt::print("points {}-D stride {} dilation {} taps {} padding {}: executed {} valid {} idle {}\n", rank, c.stride,
        c.dilation, c.taps, c.padding, executed, valid, idle);
}

}  // namespace

TEST_CASE("steps are counted as the loops turn, lanes as masks let them") {
  const Expr l = var("l"), i = var("i"), one = Constant{DType::F32, 0, 1};
  const auto acc = [](int k) { return Expr(Load{"acc", k, DType::F32}); };
  const auto step = [&](int k) { return Stmt{Store{"acc", k, Operation{Op::Add, {acc(k), one}, DType::F32}}}; };
  const auto loop = [](const char* index, Kind kind, Expr extent, Body body) {
    return Stmt{For{index, kind, std::move(extent), {}, std::move(body)}};
  };
  const auto when = [](Expr condition, Body then) { return Stmt{If{std::move(condition), std::move(then), {}}}; };
  const Stmt array{Allocate{"acc", DType::F32, 2, Memory::Register}}, zero{Store{"acc", 0, one}},
      write{Store{"Y", 0, acc(0)}}, write1{Store{"Y", 1, acc(1)}};
  const auto of = [](Body body) { return Loops{{Function{"k", {}, {}, std::move(body)}}, {Table{"T", {3, 0, 4}}}}; };
  const auto steps = [&](Body body) { return fold_steps(of(std::move(body))); };
  const auto is = [](Steps s, std::int64_t stored, std::int64_t idle) { return s.steps == stored && s.idle == idle; };
  CHECK(is(steps({array, zero, loop("i", Kind::Serial, 5, {loop("k", Kind::Serial, 3, {step(0), step(1)})}), write}),
      15, 15));
  CHECK(is(
      steps({loop("l", Kind::Vector, 16, {array, zero, step(0), when(less(l, 5), {step(1)}), write, write1})}), 21, 0));
  CHECK(is(
      steps({loop("i", Kind::Serial, 7, {loop("l", Kind::Vector, 16, {array, step(0), when(less(l, 5), {write})})})}),
      35, 77));
  CHECK(is(
      steps({array,
          loop("i", Kind::Parallel, 6, {Stmt{Let{"n", i + 1}}, loop("k", Kind::Serial, var("n"), {step(0)}), write})}),
      21, 0));
  CHECK(is(steps({array, loop("i", Kind::Parallel, 3, {loop("k", Kind::Unroll, Load{"T", i, DType::I64}, {step(0)})}),
               write}),
      7, 0));
  CHECK(is(steps({array, loop("k", Kind::Serial, 5, {step(0)}), loop("i", Kind::Serial, 4, {write, step(0)})}), 8, 1));
  CHECK(is(steps({array, loop("k", Kind::Serial, 5, {step(0)}),
               loop("i", Kind::Serial, 4, {zero, step(0), write, step(0)})}),
      4, 9));
  CHECK_THROWS(steps({array, loop("i", Kind::Parallel, 3, {loop("k", Kind::Serial, i, {step(0)})})}));
  CHECK(innermost_branches(of({array, loop("i", Kind::Serial, 5, {when(less(i, 3), {step(0)})})})) ==
      std::vector<std::string>{"i < 3"});
  CHECK(innermost_branches(
      of({array, loop("l", Kind::Vector, 8, {loop("i", Kind::Serial, 5, {when(less(l, 3), {step(0)})})})}))
          .empty());
}

TEST_CASE("contractions run their points and no more") {
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3"}) {
    const Stages product = lowered("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        {{"M", 101}, {"N", 53}, {"K", 37}}, target);
    CHECK(fold_steps(*product.lowered).steps == 101 * 53 * 37);
    const Stages padded =
        lowered("function (I[X, Y], K[3, 3]) -> (O) { O[x, y: X, Y] = +(I[x + i - 1, y + j - 1] * K[i, j]); }",
            {{"X", 50}, {"Y", 70}}, target);
    CHECK(fold_steps(*padded.lowered).steps == valid_points(*padded.bounded));
    CHECK(valid_points(*padded.bounded) == 148 * 208);
  }
}

TEST_CASE("rows of a window at the border of an image go together on a GPU, and run their points") {
  const std::string text =
      "function (I[N, H, C], K[KH, C]) -> (O) { O[n, y, c: N, (H + S - 1) / S, C] = +(I[n, S*y + D*j - D, c] * K[j, c]); }";
  for (const std::int64_t height : {56, 45})
    for (const auto& [stride, dilation, taps] :
        {std::tuple{1, 1, 3}, {2, 1, 3}, {1, 2, 3}, {1, 1, 2}, {1, 3, 3}, {2, 2, 5}}) {
      CAPTURE(height);
      CAPTURE(stride);
      CAPTURE(dilation);
      CAPTURE(taps);
      const Stages stages = lowered(with(text, stride, dilation), {{"N", 2}, {"H", height}, {"C", 32}, {"KH", taps}},
          "cuda:sm_90a", {}, "group O  threads 128\n  contract O  over n  m y  n c  k j  block 8x1  lanes 128\n");
      const Steps steps = fold_steps(*stages.lowered);
      CHECK(steps.steps == valid_points(*stages.bounded));
      CHECK(steps.idle == 0);
      const std::string loops = print(stages.lowered->steps.front().loops);
      CHECK(loops.find("register edge") != std::string::npos);
      for (std::size_t at = 0; (at = loops.find("register acc", at)) != std::string::npos; ++at)
        CHECK(loops.substr(loops.find('[', at), 3) == "[8]");
    }
}

TEST_CASE("strided convolutions and their gradients run their valid points, without a branch innermost") {
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3"})
    for (const int rank : {1, 2})
      for (const Convolution& c : {Convolution{3, 2, 3, 2, 224, 223}, Convolution{2, 1, 3, 1, 224, 335},
               Convolution{2, 1, 7, 3, 224, 778}, Convolution{4, 1, 11, 2, 224, 602}, Convolution{4, 2, 3, 2, 224, 167},
               Convolution{4, 3, 5, 6, 224, 276}, Convolution{5, 3, 7, 9, 224, 307}}) {
        CAPTURE(text_of(c, rank));
        CAPTURE(target);
        check_gradient(c, rank, target);
        check_contraction(c, rank, target, {});
        check_contraction(c, rank, target, {"K"});
      }
}
