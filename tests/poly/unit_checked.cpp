// The statements that find an index out of range, interpreted on their own.
#include <doctest/doctest.h>

#include "poly/checked.h"
#include "poly/interpret.h"
#include "poly/verify.h"

using namespace tilec::poly;

namespace {

struct Found { std::int64_t first, value; };

// `O = gather(D, I)` with I of 2 by 3 and D of 5 rows: what its check finds in `elements`.
Found look(DType type, std::vector<std::int64_t> elements, std::vector<Size> shape = {2, 3}) {
  Program program;
  program.tensors = {{"D", DType::F32, {5}, {}}, {"I", type, shape, {}}, {"O", DType::F32, shape, {}}};
  program.inputs = {0, 1};
  program.nodes.emplace_back(Intrinsic{IntrinsicOp::Gather, {2}, {0, 1}, {0}, {}});
  const std::vector<IndexCheck> checks = add_index_checks(program);
  REQUIRE(checks.size() == 1);
  CHECK(checks[0].indices == "I");
  CHECK(checks[0].bound == 5);
  CHECK(checks[0].reader == "gather");
  program.nodes.erase(program.nodes.begin());            // the checks stand on their own
  program.tensors[2] = {"unused", DType::F32, {}, {}};
  program.tensors.erase(program.tensors.begin() + 2);
  for (Node& node : program.nodes) {
    auto& statement = std::get<Statement>(node);
    --statement.target.tensor;
    for (Access& read : statement.reads) read.tensor -= read.tensor > 2 ? 1 : 0;
  }
  for (TensorId& id : program.outputs) --id;
  verify(program, Stage::Bounded);
  std::vector<std::int64_t> extents;
  for (const Size& size : shape) extents.push_back(size.get());
  const auto outputs = interpret(
      program, {Array{DType::F32, {5}, std::vector<double>(5), {}}, Array{type, extents, {}, std::move(elements)}})
                           .outputs;
  return {outputs[0].integers.at(0), outputs[1].integers.at(0)};
}

}  // namespace

TEST_CASE("indices in range are as many as there are") {
  CHECK(look(DType::I32, {0, 1, 2, 3, 4, 0}).first == 6);
  CHECK(look(DType::I32, {}, {0, 3}).first == 0);
}

TEST_CASE("the first index out of range is found with its value") {
  const Found high = look(DType::I32, {0, 1, 2, 5, -1, 9});
  CHECK(high.first == 3);
  CHECK(high.value == 5);
  const Found low = look(DType::I8, {0, -7, 2, 5, 1, 9});
  CHECK(low.first == 1);
  CHECK(low.value == -7);
}

TEST_CASE("an unsigned index past the signed range is out of range") {
  const Found found = look(DType::U64, {0, 1, -1, 5, 1, 9});   // 2^64 - 1
  CHECK(found.first == 2);
  CHECK(static_cast<std::uint64_t>(found.value) == ~std::uint64_t{0});
}

TEST_CASE("a scalar index has one position") { CHECK(look(DType::I64, {5}, {}).first == 0); }

TEST_CASE("indices that are read twice against one bound are checked once") {
  Program program;
  program.tensors = {{"D", DType::F32, {5}, {}}, {"I", DType::I32, {3}, {}}, {"O", DType::F32, {3}, {}},
      {"S", DType::F32, {5}, {}}, {"T", DType::F32, {7}, {}}};
  program.inputs = {0, 1};
  program.nodes = {Intrinsic{IntrinsicOp::Gather, {2}, {0, 1}, {0}, {}},
      Intrinsic{IntrinsicOp::Scatter, {3}, {2, 1}, {0}, {}}, Intrinsic{IntrinsicOp::Scatter, {4}, {2, 1}, {0}, {}}};
  const auto checks = add_index_checks(program);
  REQUIRE(checks.size() == 2);
  CHECK(checks[1].bound == 7);
  CHECK(checks[1].reader == "scatter");
  CHECK(program.outputs.size() == 4);
}
