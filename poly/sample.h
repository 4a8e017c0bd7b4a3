// As much of a Program as some elements of its outputs need.
//
//   C of 512 x 512, a product of depth 512   ⇒   134 million points;  4096 elements of it   ⇒   2 million
//
// What is whole in little time stays whole. Else some elements of each large output are chosen at random, as many as
// that time allows and one at least, and of the tensors between, what these read; whole where that costs no more, and
// wherever a gather, scatter or sort lies in between.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "poly/interpret.h"
#include "poly/program.h"

namespace tilec::poly {

// Which elements of a tensor are computed: all, or these in ascending order.
struct Needed { bool all = false; std::vector<std::size_t> elements = {}; };

struct Selection {
  std::vector<Needed> tensors;                         // of Program::tensors
  double steps = 0;                                    // operations on points, about: a billion takes two seconds in
                                                       // long sums, eight where every element has a few points
};

struct Effort {
  double steps = 0x1p29;                               // what takes no more is done whole; 0: as many elements as are
                                                       // asked for
  std::uint64_t elements = 4096;                       // at most, of each output, where the whole takes more: fewer
                                                       // where these do so too
  std::uint64_t seed = 0;
};

Selection everything(const Program& program);
Selection select(const Program& program, const Effort& effort);  // a bound Program

// The rows of the domain, and those that hold for the points of one element of the target.
std::vector<Range> points_of(const Statement& statement, const std::vector<std::int64_t>& shape, std::size_t element);

using Progress = std::function<void(double done)>;     // from 0 to 1, often
// Elements that are not selected are 0 in the result.
Interpretation interpret(
    const Program& program, const std::vector<Array>& inputs, const Selection& selection, const Progress& progress);

}  // namespace tilec::poly
