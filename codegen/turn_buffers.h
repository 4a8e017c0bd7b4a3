// What a turn of a group keeps: locals, which statements of the turn hand on to each other, and sums that a block of
// threads adds up part by part and writes behind its turn.
//
//   parallel i by 4, local E[i, j: 64, 100]     ⇒   allocate E 400; E[i, j] lies at 100*i + j - 100*i_0
#pragma once

#include <map>
#include <string>

#include "codegen/spelling.h"

namespace tilec::codegen {

// Of the index of each loop of a group.
struct TurnNames {
  std::map<std::string, std::string> first;            // its first value in this turn, or in this part of the turn
  std::map<std::string, std::string> turn;             // which turn it is
};

class TurnBuffers {
 public:
  TurnBuffers(const Plan& plan, const Group& group, const Strides& strides, const Storage& storage,
      const TurnNames& turns)
      : plan_(plan), group_(group), strides_(strides), storage_(storage), turns_(turns) {}

  bool local(TensorId id) const;
  Body allocate() const;
  // What is subtracted from offsets of a tensor that is local or kept: where its buffer starts in it.
  Expr base(TensorId id) const;
  Body write_kept(Names& names) const;                 // to where this turn's part of it lies

 private:
  Expr start_of_part(TensorId id) const;

  const Plan& plan_;
  const Group& group_;
  const Strides& strides_;
  const Storage& storage_;
  const TurnNames& turns_;
};

}  // namespace tilec::codegen
