// Sums of the rows of a block, side by side in one vector: as many rounds as a fold of one row has, of half as many
// registers each.
//
//   a0 a1 a2 a3     a0 a1 b0 b1     a2 a3 b2 b3     a02 a13 b02 b13     a02 b02 c02 d02     a13 b13 c13 d13
//   b0 b1 b2 b3  ⇒               +               ⇒                   ⇒                   +                   ⇒  a b c d
//   c0 c1 c2 c3     c0 c1 d0 d1     c2 c3 d2 d3     c02 c13 d02 d13
//   d0 d1 d2 d3
//
// Each row is folded in the order of Fold, so its result has the same bits.
#include <algorithm>
#include <bit>

#include "codegen/llvm/body.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

namespace {

using llvm::Value;

// Which lanes of two registers meet in the round of bit `fold` of a lane's number; those of the second register count
// behind the first's. What is left of the second register goes into the upper half of [low, high), the bits that `fold`
// is among: shuffles of whole 16 bytes, or within each 16 bytes, are one instruction of every x86.
struct Halves { std::vector<int> lower, upper; };

Halves halves(int lanes, int fold, int high) {
  Halves made;
  for (int lane = 0; lane < lanes; ++lane) {
    const int second = lane >> (high - 1) & 1 ? lanes : 0;
    const int above = lane >> fold & ((1 << (high - 1 - fold)) - 1);  // the bits between, which have moved down
    const int from = lane >> high << high | above << (fold + 1) | (lane & ((1 << fold) - 1));
    made.lower.push_back(second + from);
    made.upper.push_back(second + (from | 1 << fold));
  }
  return made;
}

// Of the bits of a lane's number, from the uppermost to the lowest: the last round of two registers is that before
// `one`.
struct Rounds {
  int lanes, within, pairs;                            // bits: of the number, of 16 bytes; rounds that make one
                                                       // register of two

  Rounds(int lanes, int bytes, int rows)
      : lanes(std::countr_zero(static_cast<unsigned>(lanes))),
        within(std::min(this->lanes, std::countr_zero(static_cast<unsigned>(std::max(1, 16 / bytes))))),
        pairs(std::countr_zero(std::bit_ceil(static_cast<unsigned>(rows)))) {}
  Halves pair(int round) const {
    const int fold = lanes - 1 - round;
    return halves(1 << lanes, fold, fold >= within ? lanes : within);
  }
};

// The row that each lane has in the end, where the registers come in the order of the rows.
std::vector<int> rows_of_lanes(const Rounds& rounds) {
  std::vector<std::vector<int>> registers;
  for (int row = 0; row < 1 << rounds.pairs; ++row) registers.emplace_back(std::size_t{1} << rounds.lanes, row);
  for (int round = 0; round < rounds.pairs; ++round) {
    const std::vector<int> lower = rounds.pair(round).lower;
    for (std::size_t at = 0; at < registers.size() / 2; ++at) {
      std::vector<int> both = registers[2 * at], made;
      both.insert(both.end(), registers[2 * at + 1].begin(), registers[2 * at + 1].end());
      for (const int lane : lower) made.push_back(both[static_cast<std::size_t>(lane)]);
      registers[at] = std::move(made);
    }
    registers.resize(registers.size() / 2);
  }
  return registers.front();
}

}  // namespace

void BodyEmitter::statement(const FoldRows& s) {
  const Place& m = memory(s.name);
  Registers& array = registers_[static_cast<std::size_t>(m.registers)];
  const auto rows = static_cast<int>(s.rows);
  if (!lanes_ || mask_ || rows > lanes_ || array.size() < static_cast<std::size_t>(rows) ||
      !std::has_single_bit(static_cast<unsigned>(lanes_)))
    throw lang::InternalError("LLVM emitter: rows of `" + s.name + "` cannot be folded here");
  const Rounds rounds(lanes_, lang::bytes(m.type), rows);
  const std::vector<int> row_of = rows_of_lanes(rounds);
  const bool full = rounds.pairs == rounds.lanes;      // then the rows come so that the results are in order
  std::vector<Value*> parts(row_of.size(), nullptr);
  parts.resize(std::size_t{1} << rounds.pairs);
  for (int row = 0; row < rows; ++row)
    parts[static_cast<std::size_t>(full ? row_of[static_cast<std::size_t>(row)] : row)] =
        array[static_cast<std::size_t>(row)];
  const auto folded = [&](Value* a, Value* b, const Halves& h) {
    return combine(builder_, s.how, m.type, builder_.CreateShuffleVector(a, b, h.lower),
        builder_.CreateShuffleVector(a, b, h.upper));
  };
  for (int round = 0; round < rounds.pairs; ++round) {
    const Halves pair = rounds.pair(round);
    for (std::size_t at = 0; at < parts.size() / 2; ++at) {
      Value *a = parts[2 * at], *b = parts[2 * at + 1];
      parts[at] = !a && !b ? nullptr : folded(a ? a : b, b ? b : a, pair);
    }
    parts.resize(parts.size() / 2);
  }
  Value* all = parts.front();
  for (int fold = rounds.lanes - rounds.pairs - 1; fold >= 0; --fold) {
    Halves same;
    for (int lane = 0; lane < lanes_; ++lane)
      same.lower.push_back(lane & ~(1 << fold)), same.upper.push_back(lane | 1 << fold);
    all = folded(all, all, same);
  }
  if (!full) {
    std::vector<int> first(row_of.size(), 0);
    for (int lane = lanes_; lane-- > 0;) first[static_cast<std::size_t>(row_of[static_cast<std::size_t>(lane)])] = lane;
    all = builder_.CreateShuffleVector(all, first);
  }
  array[0] = all;
}

}  // namespace tilec::codegen::llvm_backend
