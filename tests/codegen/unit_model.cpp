// The model: exact bytes where a program says how many, and what every prediction must keep.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "codegen/model/footprint.h"
#include "codegen/model/machine.h"
#include "codegen/model/predict.h"
#include "codegen/model/run.h"
#include "codegen/requests.h"
#include "tests/codegen/compiled.h"

using namespace tilec;
using test::Sizes;
namespace model = codegen::model;

namespace {

struct Predicted { codegen::Plan plan; model::PlanPrediction of; };

Predicted predicted(const std::string& text, const Sizes& sizes, const char* target = "cpu:x86-64-v4",
    const std::string& plan = "", bool gradient = false) {
  codegen::Request request = test::request_for(sizes, target, gradient ? 1 : 0);
  if (!plan.empty()) request.plan = codegen::PlanText{plan, 0};
  const codegen::Stages stages = test::compiled(text, request, codegen::Until::Plan);
  return {*stages.plan, model::predict(*stages.plan, stages.strides, request.target)};
}

model::Footprint touched(std::vector<std::int64_t> strides, const std::vector<std::int64_t>& extents) {
  return model::footprint({0, {std::move(strides), 0}}, extents, 4);
}

model::Boxes boxes_of(const std::vector<std::vector<std::int64_t>>& extents) {
  model::Boxes boxes;
  boxes.begin(extents.front());
  for (std::size_t at = 1; at < extents.size(); ++at) std::ranges::copy(extents[at], boxes.again().begin());
  return boxes;
}

const char* const doubled = "function (A[N]) -> (B) { B[i: N] = =(2*A[i]); }";
const char* const matmul = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
const char* const transposed = "function (A[M, N]) -> (B) { B[j, i: N, M] = =(A[i, j]); }";
const char* const softmax =
    "function (X[M, N]) -> (Y) { A[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - A[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }";
const char* const triangle = "function (A[T, D], B[T, D]) -> (C) { C[t, s: T, T] = +(A[t, d] * B[s, d]), s <= t; }";
const char* const convolution =
    "function (I[N, H, W, C], K[R, S, C, O]) -> (Y) { Y[n, y, x, o: N, H, W, O] = +(I[n, y + r - 1, x + s - 1, c] * K[r, s, c, o]); }";
const char* const running = "function (X[M, N]) -> (Y) { Y[i, j: M, N] = +(X[i, k]), k <= j; }";

}  // namespace

TEST_CASE("a footprint counts each element and each line once") {
  CHECK(touched({1}, {1000}).elements == 1000);
  CHECK(touched({1}, {1000}).lines == 63);             // 62.5
  CHECK(touched({1, 1}, {54, 3}).elements == 56);      // a window: x + k
  CHECK(touched({2, 1}, {54, 3}).elements == 109);     // 2*x + k
  CHECK(touched({2, 4}, {10, 3}).elements == 14);      // 2*x + 4*k: even ones only
  CHECK(touched({1000, 1}, {10, 16}).elements == 160);
  CHECK(touched({1024, 1}, {10, 16}).lines == 10);     // whole lines
  CHECK(touched({16, 1}, {10, 16}).lines == 10);       // neighbours: 160 elements
  CHECK(touched({-1}, {64}).lines == 4);               // from the end
  CHECK(touched({0, 1}, {50, 16}).lines == 1);         // the same one again
  CHECK(touched({1}, {4096}).pages == 4);
  CHECK(touched({1024, 1}, {10, 16}).pages == 10);     // rows of a page each
  CHECK(touched({2048, 1024, 1}, {5, 2, 16}).pages == 10);
  CHECK(touched({64, 1}, {16, 16}).pages == 1);
}

TEST_CASE("lines that crowd few sets of a first cache take the room of more") {
  CHECK(touched({304, 1}, {297, 16}).room == 297);     // 19 lines apart: all 64 sets
  CHECK(touched({320, 1}, {297, 16}).room == 64 * 297 / 16.0);  // 20 lines: 16 sets
  CHECK(touched({8640, 320, 1}, {11, 27, 16}).room == 64 * 297 / 16.0);  // 540 and 20 lines
  CHECK(touched({320, 1}, {100, 16}).room == 100);     // 7 a set, which it holds
  CHECK(touched({1024, 1}, {20, 16}).room == 64 * 20); // all in one set
  CHECK(touched({1000, 1}, {297, 16}).room == touched({1000, 1}, {297, 16}).lines);  // begin anywhere in a line
}

TEST_CASE("lines that are stored in parts, and long after the part before, are waited for") {
  // Of each of so many rows a turn stores 5 elements.
  const auto milliseconds = [](std::int64_t rows, std::int64_t turns) {
    return predicted("function (A[B, M, C], D[B, M, N]) -> (O) { O[n, b, c: N, B, C] = +(A[b, m, c] * D[b, m, n]); }",
        {{"N", rows}, {"B", turns}, {"M", 4}, {"C", 5}}, "cpu:znver5",
        "no stage\nno tile\nno copy\nno split\ngroup O\n  parallel b by 1\n    contract O  m c  n n  k m  block 5x1  lanes 16  "
        "turned  claimed\n")
        .of.sum.milliseconds;
  };
  CHECK(milliseconds(5000, 400) > 1.2 * milliseconds(500, 4000));
}

TEST_CASE("pages that a core has forgotten take time") {
  // Down 5520 rows a page or more apart for each b, or rows of 64 b together: the same lines.
  const auto with = [](const char* plan) {
    return predicted("function (A[K, M], B[M, R, K]) -> (C) { C[k, r: K, R] = +(A[k, m] * B[m, r, k]); }",
        {{"K", 448}, {"M", 16}, {"R", 345}}, "cpu:x86-64-v4", plan)
        .of.sum.milliseconds;
  };
  CHECK(with("no stage\nno tile\nno copy\nno split\ngroup C\n  contract C  over k  m r  k m  block 15x1  lanes 1\n") >
      1.5 *
          with("no stage\nno tile\nno copy\nno split\ngroup C\n  contract C  over r  m k  k m  block 14x1  lanes 1\n"));
}

TEST_CASE("values of a tap that bound no output are one pass") {
  const codegen::Nest window{{{"k", 7, false}, {"m", 398, true}, {"t", 3, true}}, {{{{3, 1, 0}, -9}, 398}},
      {0, {{1, 0, 0}, 0}}, {}, poly::Aggregation::Sum, std::nullopt, {}, std::nullopt};
  const std::vector<std::int64_t> extents{7, 398, 3};
  CHECK(codegen::passes_of_taps(window, extents, {1}) == 9 + 9 + 1);
  CHECK(codegen::passes_of_taps(window, extents, {1, 2}) == 398);  // m is not the last; all values of t bound nothing
  CHECK(codegen::passes_of_taps(window, extents, {2}) == 1);
}

TEST_CASE("who claims lines does not wait for them") {
  const auto with = [](const char* claimed) {
    return predicted("function (A[K, M], B[N, P, K]) -> (C) { C[p, m, n: P, M, N] = +(A[k, m] * B[n, p, k]); }",
        {{"K", 5}, {"M", 8}, {"N", 497}, {"P", 1293}}, "cpu:x86-64-v4",
        std::string(
            "no stage\nno tile\nno copy\nno panels\ngroup C\n  contract C  over p  m m  n n  k k  block 8x1  lanes 16") +
            claimed + "\n")
        .of.sum.milliseconds;
  };
  CHECK(with("  claimed") < with(""));
}

TEST_CASE("lines that come one behind the other, in the order of the loops") {
  // A row of 4096 f32 at a time: 256 lines a row, 1000 rows. Walked along the rows, down strips of two lines, and down
  // 8 strips side by side.
  const std::vector<std::int64_t> strides{4096, 1}, all{1000, 4096};
  const auto run = [&](std::vector<model::Walk::Turns> loops, const std::vector<std::vector<std::int64_t>>& boxes) {
    return model::run_of({0, {strides, 0}}, {std::move(loops), boxes_of(boxes), 0, 1}, 4);
  };
  const auto turns = [](std::size_t d, double count) { return model::Walk::Turns{{d}, count, count}; };
  CHECK(run({turns(0, 1000), turns(1, 128)}, {all, {1, 4096}, {1, 32}}) == 256000);
  CHECK(run({turns(1, 128), turns(0, 1000)}, {all, {1000, 32}, {1, 32}}) == 2);
  // 8 streams: a core follows them, and no more than 16
  CHECK(run({turns(0, 125), turns(1, 128)}, {all, {8, 4096}, {8, 32}}) == 256);
  CHECK(run({turns(0, 40), turns(1, 128)}, {all, {25, 4096}, {25, 32}}) == 2);
}

TEST_CASE("rows near each other, of which the loops read an element each before the next") {
  // Rows of 57 f32, so many to a piece, one piece behind the other.
  const auto run = [](std::int64_t rows) {
    const std::vector<std::int64_t> all{100, 57, rows};
    const auto turns = [&](std::size_t d) {
      return model::Walk::Turns{{d}, static_cast<double>(all[d]), static_cast<double>(all[d])};
    };
    return model::run_of({0, {{57 * rows, 1, 57}, 0}},
        {{turns(0), turns(1), turns(2)}, boxes_of({all, {1, 57, rows}, {1, 1, rows}, {1, 1, 1}}), 0, 1}, 4);
  };
  CHECK(run(26) == 3.5625);                            // 228 bytes each
  CHECK(run(16) > 50);                                 // as many streams as a core follows
}

TEST_CASE("lines from another page each take longer than a stream") {
  const Predicted far = predicted(
      "function (D[N, Q, M], B[Q, N, K]) -> (A) { A[m, k: M, K] = +(D[n, q, m] * B[q, n, k]); }",
      {{"N", 1991}, {"Q", 7}, {"M", 891}, {"K", 7}}, "cpu:x86-64-v4",
      "no copy\nno stage\nno tile\ngroup A\n  parallel m by 128\n    contract A  m k  n m  k n q  block 7x2  lanes 16  chunk 1\n");
  CHECK(far.of.sum.milliseconds > 2 * 1.3 * far.of.sum.bytes.memory / 25e6);  // 25 GB/s, the rate of a stream
}

TEST_CASE("what was asked for is not waited for") {
  const auto took = [](const std::string& ahead) {
    return predicted("function (D[N, Q, M], B[Q, N, K]) -> (A) { A[m, k: M, K] = +(D[n, q, m] * B[q, n, k]); }",
        {{"N", 1991}, {"Q", 7}, {"M", 891}, {"K", 7}}, "cpu:x86-64-v4",
        "no copy\nno stage\nno tile\ngroup A\n  parallel m by 128\n    contract A  m k  n m  k n q  block 7x2  lanes 16" +
            ahead + "\n")
        .of.sum.milliseconds;
  };
  CHECK(took("  ahead 4 m") < 0.6 * took(""));
}

TEST_CASE("a result from memory that is written in runs of one line takes longer") {
  const auto took = [](const std::string& turns) {
    return predicted("function (A[K, M], B[N, P, K]) -> (C) { C[p, m, n: P, M, N] = +(A[k, m] * B[n, p, k]); }",
        {{"K", 5}, {"M", 8}, {"N", 497}, {"P", 1293}}, "cpu:x86-64-v4",
        "no copy\ngroup C\n  parallel " + turns + "  m n  n m  k k  block 8x1  lanes 8  turned\n")
        .of.sum.milliseconds;
  };
  CHECK(took("p by 1\n    contract C") < took("n by 16\n    contract C  over p"));  // 2.8 and 6.1 ms
}

TEST_CASE("lines that are stored one after the other share sets of a cache") {
  // Squares of 16 x 16 of B[j, i], rows a page apart: along the rows, 16 lines are in one set; down the columns, all
  // are.
  const auto turns = [](std::size_t d, double count) { return model::Walk::Turns{{d}, count, count}; };
  const auto shared = [&](std::int64_t row, std::size_t first) {
    const std::vector<std::int64_t> all{1024, 1024},
        inside = first == 0 ? std::vector<std::int64_t>{16, 1024} : std::vector<std::int64_t>{1024, 16};
    return model::sharing_sets({0, {{row, 1}, 0}},
        {{turns(first, 64), turns(1 - first, 64)}, boxes_of({all, inside, {16, 16}}), 0, 1}, 4);
  };
  CHECK(shared(1024, 0) == 16);
  CHECK(shared(1024, 1) == 64);
  CHECK(shared(512, 1) == 32);
  CHECK(shared(1040, 1) == 1);
  const auto took = [](std::int64_t n) {
    return predicted(transposed, {{"M", n}, {"N", n}}, "cpu:x86-64-v4",
        "group B\n  parallel i by 16\n    map B  m i  n j  block 16x1  lanes 16  turned\n")
        .of.sum.milliseconds;
  };
  CHECK(took(1024) > 1.5 * took(1040));
}

TEST_CASE("rows that would share sets of a cache") {
  CHECK(model::share_sets(48, 4096));
  CHECK_FALSE(model::share_sets(4, 4096));             // as many as a set holds, and room for others
  CHECK(model::share_sets(33, 512));
  CHECK_FALSE(model::share_sets(32, 512));
  CHECK_FALSE(model::share_sets(48, 4096 + 64));
  CHECK(model::share_sets(297, 1280));
  CHECK_FALSE(model::share_sets(297, 1216));           // a line more would be an even number of them
  CHECK_FALSE(model::share_sets(1000, 256));
}

TEST_CASE("rows of a tensor between statements lie where a cache holds a line of each") {
  using Shape = std::vector<std::int64_t>;
  CHECK(codegen::rows_apart({48, 1024}, 4) == Shape{1040, 1});
  CHECK(codegen::rows_apart({48, 512}, 8) == Shape{520, 1});
  CHECK(codegen::rows_apart({4, 1024}, 4) == Shape{1024, 1});
  // 4896 would be 306 lines, which few rows share
  CHECK(codegen::rows_apart({249, 18, 16, 16}, 4) == Shape{4912, 272, 16, 1});
  CHECK(codegen::rows_apart({3, 0, 1024}, 4) == Shape{0, 0, 0});
  CHECK(codegen::rows_apart({5, 9, 70}, 4) == Shape{630, 70, 1});
  CHECK(codegen::rows_apart({5, 9, 70}, 4, true) == Shape{720, 80, 1});
  CHECK(codegen::rows_apart({5, 9, 70}, 2, true) == Shape{630, 70, 1});         // 140 bytes
  CHECK(codegen::rows_apart({48, 1020}, 4, true) == Shape{1040, 1});            // 1024 would share sets
  CHECK(codegen::reach_of({48, 1024}, {1040, 1}) == 47 * 1040 + 1024);
  CHECK(codegen::reach_of({3, 0, 1024}, {0, 0, 0}) == 0);
  CHECK(codegen::reach_of({}, {}) == 1);
}

TEST_CASE("bytes that must move are those of inputs and outputs") {
  for (const std::int64_t n : {1, 16, 1000, 1 << 20})
    CHECK(predicted(doubled, {{"N", n}}).of.sum.bytes.must == 8.0 * static_cast<double>(n));
  CHECK(predicted(matmul, {{"M", 100}, {"N", 200}, {"K", 300}}).of.sum.bytes.must ==
      4.0 * (100 * 300 + 300 * 200 + 100 * 200));
  CHECK(predicted(softmax, {{"M", 400}, {"N", 1000}}).of.sum.bytes.must == 2 * 4.0 * 400 * 1000);
  CHECK(predicted(convolution, {{"N", 2}, {"H", 20}, {"W", 20}, {"C", 16}, {"R", 3}, {"S", 3}, {"O", 32}})
            .of.sum.bytes.must == 4.0 * (2 * 400 * 16 + 9 * 16 * 32 + 2 * 400 * 32));
}

TEST_CASE("a result is fetched and sent back, unless it is stored past the cache") {
  CHECK(predicted(doubled, {{"N", 1 << 20}}).of.sum.bytes.memory == 12.0 * (1 << 20));
  const Predicted large = predicted(doubled, {{"N", 1 << 24}});
  REQUIRE(large.plan.groups.at(0).body.at(0).streams());
  CHECK(large.of.sum.bytes.memory == 8.0 * (1 << 24));
}

TEST_CASE("what a turn keeps in cache is not moved") {
  const Predicted rows = predicted(softmax, {{"M", 4000}, {"N", 1024}});
  REQUIRE(rows.plan.groups.size() == 1);
  REQUIRE(rows.plan.groups[0].locals.size() == 3);
  CHECK(rows.of.sum.bytes.memory <= 3 * 4.0 * 4000 * 1024 + 64);
  const Predicted apart = predicted(softmax, {{"M", 4000}, {"N", 1024}}, "cpu:x86-64-v4", "no share\n");
  REQUIRE(apart.plan.groups.size() == 4);
  CHECK(apart.of.sum.bytes.memory > 2 * rows.of.sum.bytes.memory);
  CHECK(apart.of.sum.bytes.must == rows.of.sum.bytes.must);
  CHECK(apart.of.sum.milliseconds > rows.of.sum.milliseconds);
}

TEST_CASE("nothing moves less than it must, and inner levels move no less than outer ones") {
  for (const char* target :
      {"cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:aarch64", "cpu:znver5", "cpu:icelake-server", "cpu:x86-64"})
    for (const bool gradient : {false, true})
      for (const auto& [text, sizes] : std::vector<std::pair<const char*, Sizes>>{{doubled, {{"N", 30000}}},
               {matmul, {{"M", 130}, {"N", 170}, {"K", 150}}}, {matmul, {{"M", 1300}, {"N", 1700}, {"K", 1500}}},
               {transposed, {{"M", 500}, {"N", 700}}}, {softmax, {{"M", 400}, {"N", 1000}}},
               {triangle, {{"T", 100}, {"D", 40}}},
               {convolution, {{"N", 2}, {"H", 20}, {"W", 20}, {"C", 16}, {"R", 3}, {"S", 3}, {"O", 32}}},
               {running, {{"M", 30}, {"N", 500}}}}) {
        CAPTURE(target);
        CAPTURE(text);
        CAPTURE(gradient);
        const Predicted one = predicted(text, sizes, target, "", gradient);
        CHECK(one.of.groups.size() == one.plan.groups.size());
        CHECK(one.of.sum.milliseconds > 0);
        CHECK(one.of.sum.core > 0);
        CHECK(one.of.sum.milliseconds >= one.of.sum.core);
        const model::Bytes& bytes = one.of.sum.bytes;
        CHECK(bytes.memory > 0.45 * bytes.must);         // of a triangle, half of the result
        CHECK(bytes.last >= 0.999 * bytes.memory);
        CHECK(bytes.second >= 0.999 * bytes.last);
        double sum = 0;
        for (const model::Prediction& group : one.of.groups) sum += group.milliseconds;
        CHECK(sum == doctest::Approx(one.of.sum.milliseconds));
      }
}

TEST_CASE("more points take longer, and move no less") {
  for (const char* text : {doubled, running, softmax, transposed, triangle, matmul}) {
    CAPTURE(text);
    double time = 0, memory = 0;
    for (const std::int64_t n : {16, 64, 256, 512, 1024, 2048}) {
      const Predicted one = predicted(text, {{"N", n}, {"M", n}, {"K", n}, {"T", n}, {"D", n}});
      CHECK(one.of.sum.milliseconds > time);
      CHECK(one.of.sum.bytes.memory >= memory);
      time = one.of.sum.milliseconds, memory = one.of.sum.bytes.memory;
    }
  }
}

TEST_CASE("a block that reuses what it loads is faster than none") {
  const Sizes sizes{{"M", 256}, {"N", 256}, {"K", 256}};
  const double chosen = predicted(matmul, sizes).of.sum.milliseconds;
  const double single =
      predicted(matmul, sizes, "cpu:x86-64-v4", "group C\n  contract C  m i  n j  k k  block 1x1  lanes 16\n")
          .of.sum.milliseconds;
  const double apart =
      predicted(matmul, sizes, "cpu:x86-64-v4", "group C\n  contract C  m j  n i  k k  block 4x1  lanes 16\n")
          .of.sum.milliseconds;
  CHECK(single > 1.5 * chosen);
  CHECK(apart > single);                               // each lane reads a line of its own
}

TEST_CASE("wider vectors take no longer") {
  for (const char* text : {matmul, softmax, doubled}) {
    const Sizes sizes{{"M", 200}, {"N", 200}, {"K", 200}};
    CHECK(predicted(text, sizes, "cpu:x86-64-v4").of.sum.core <= predicted(text, sizes, "cpu:x86-64-v3").of.sum.core);
    CHECK(predicted(text, sizes, "cpu:x86-64-v3").of.sum.core <= predicted(text, sizes, "cpu:x86-64").of.sum.core);
  }
}

TEST_CASE("of a target whose cores are not known, bytes alone are predicted") {
  for (const char* target : {"opencl", "cuda:sm_90a"}) {
    CHECK_FALSE(model::predicts_time(*codegen::target_named(target)));
    const Predicted one = predicted(matmul, {{"M", 500}, {"N", 500}, {"K", 500}}, target);
    CHECK(one.of.sum.milliseconds == 0);
    CHECK(one.of.sum.bytes.must == 3 * 4.0 * 500 * 500);
  }
}

TEST_CASE("a sum of nothing has a plan on every machine") {
  for (const char* target :
      {"cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:aarch64", "cpu:znver5", "cpu:icelake-server", "cpu:x86-64"})
    for (const auto& [m, n, k] :
        std::vector<std::array<std::int64_t, 3>>{{100, 200, 0}, {0, 200, 300}, {100, 0, 300}, {0, 0, 0}})
      CHECK(predicted(matmul, {{"M", m}, {"N", n}, {"K", k}}, target).of.sum.milliseconds >= 0);
}

TEST_CASE("empty tensors and rows found by number are predicted too") {
  CHECK(predicted(doubled, {{"N", 0}}).of.sum.bytes.must == 0);
  const char* const gather = "function (A[N, D], i32 I[M]) -> (C) { C = gather(A, I); }";
  CHECK(predicted(gather, {{"N", 1000}, {"D", 64}, {"M", 500}}).of.sum.milliseconds < 0.1);
  const char* const sorted = "function (A[M, N]) -> (C) { C = argsort(A, 1); }";
  CHECK(predicted(sorted, {{"M", 10}, {"N", 1000}}).of.sum.milliseconds >
      predicted(sorted, {{"M", 10}, {"N", 100}}).of.sum.milliseconds);
}

TEST_CASE("of a window, a step asks for rows that no step before it has read") {
  const auto rows = [](std::int64_t by_row, std::int64_t by_step) {
    const codegen::RowsOfStep found = codegen::new_rows({{by_row, by_step}, 0}, 0, 11, 1);
    return std::pair(found.first, found.count);
  };
  CHECK(rows(3, 0) == std::pair<std::int64_t, std::int64_t>(0, 11));
  // a row reads what the seventh behind it has read three steps before
  CHECK(rows(3, 7) == std::pair<std::int64_t, std::int64_t>(4, 7));
  CHECK(rows(3, 3) == std::pair<std::int64_t, std::int64_t>(10, 1));
  // after two steps, what the row behind it has read
  CHECK(rows(6, 3) == std::pair<std::int64_t, std::int64_t>(10, 1));
  CHECK(rows(3, -6) == std::pair<std::int64_t, std::int64_t>(0, 2));
  CHECK(rows(3, 33) == std::pair<std::int64_t, std::int64_t>(0, 11));
}

TEST_CASE("a reciprocal takes as long as the division that it is") {
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:aarch64"}) {
    const auto takes = [&](const std::string& value) {
      const std::string text = "function (A[N]) -> (B) { B[i: N] = =(" + value + "); }";
      return predicted(text, {{"N", 4096}}, target).of.sum.milliseconds;
    };
    CHECK(takes("recip(A[i])") == takes("1 / A[i]"));
    CHECK(takes("recip(A[i])") > takes("A[i] + 1"));
  }
}

TEST_CASE("the lines of a step are as many as are listed") {
  std::mt19937 draw(7);
  const auto upto = [&](int most) { return std::uniform_int_distribution<std::int64_t>(0, most)(draw); };
  for (int turn = 0; turn < 3000; ++turn) {
    std::vector<std::int64_t> steps;
    for (int d = 0; d < 4; ++d) {
      const std::int64_t step = upto(3) == 0 ? 0 : upto(3) == 0 ? upto(2000) : upto(40);
      steps.push_back(upto(3) == 0 ? -step : step);
    }
    const codegen::Form offset{std::move(steps), 0};
    const std::vector<std::pair<std::size_t, std::int64_t>> inner{{2, 1 + upto(7)}, {3, 1 + upto(3)}};
    const std::int64_t rows = 1 + upto(13), columns = 1 + upto(95), bytes = std::int64_t{1} << upto(3);
    const int m = upto(5) == 0 ? -1 : 0, n = upto(5) == 0 ? -1 : 1;
    CHECK(codegen::count_lines_of_step(offset, m, rows, n, columns, bytes, inner) ==
        static_cast<std::int64_t>(codegen::lines_of_step(offset, m, rows, n, columns, bytes, inner).size()));
  }
}
