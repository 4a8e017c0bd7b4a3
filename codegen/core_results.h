// The results of a block of threads on tensor cores: which elements a thread has, how they are finished and written.
//
// Thread 4 g + t of a warp has of each 16 x 8 results rows g and g + 8, columns 2 t and 2 t + 1
// (docs/decisions/tensor_cores.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/core_operands.h"

namespace tilec::codegen {

class CoreResults : protected CoreOperands {
 protected:
  using CoreOperands::CoreOperands;

  // Two columns of a thread are one access where that is a multiple of its bytes, in all that is written so.
  Body write();
  Body again();                                        // elements whose sums are not finite

  Expr warp_ = i64(0);                                 // of those of an instruction
  Expr first_m_ = i64(0), first_n_ = i64(0);           // where they begin in the block
  std::string acc_;

 private:
  // Where an access lies for the elements of a thread: in each of its columns, and in the row.
  struct Spot { const Form* form; std::vector<Expr> columns; Expr base; };

  std::int64_t row(std::int64_t i, std::int64_t half) const { return i * instruction_.m + half * 8; }
  Expr element_of(std::int64_t i, std::int64_t half, std::int64_t j, std::int64_t one) const;
  std::vector<Spot> spots(Body& body, const std::vector<Expr>& columns);
  static const Spot& spot_of(const std::vector<Spot>& spots, const Form& form);
  Body rows(std::vector<Spot>& spots, std::vector<Spot>& exchanged, const std::vector<Finishing::Together>& together);
  // Two of them, side by side.
  Body columns(const std::vector<Spot>& spots, std::int64_t i, std::int64_t half, std::int64_t j,
      const std::vector<Finishing::Together>& together);

  Expr m_of_thread_ = i64(0), n_of_thread_ = i64(0);   // its first element
  std::vector<Expr> pairs_;                            // where its four neighbours of two blocks of columns begin
  bool exchanges_ = false;                             // threads store what their neighbours have summed
};

}  // namespace tilec::codegen
