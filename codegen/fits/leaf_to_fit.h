// A leaf that a caller gives, beside the one that is chosen, and what may be wrong with it: a function for each
// question.
#pragma once

#include <string>

#include "codegen/fits.h"

namespace tilec::codegen {

struct LeafToFit {
  const Plan& plan;
  const Group& group;
  const Compute& leaf;
  const Compute& chosen;                               // in whose place it stands
  const Strides& strides;
  const Target& target;
  const Nest nest = leaf_nest(plan.program, group, leaf, strides);
  const forms::Contract* contract = leaf.as<forms::Contract>();
  const forms::TensorCores* cores = leaf.as<forms::TensorCores>();

  const Dim* dim(const std::string& name) const;       // null: there is none
  bool reduces(const std::string& name) const { return dim(name) && dim(name)->reduction; }
  bool folds() const;
  bool adds() const;                                   // its target can hold a part of the fold, to which others are
                                                       // added
  bool blocked() const { return !leaf.m().empty() && !leaf.n.empty(); }
  const std::string& name() const { return plan.program.tensor(nest.target.tensor).name; }
  std::string dims() const;                            // all names
};

// On any target.
Misfit surrounding_fault(const LeafToFit& leaf);       // of the loops around it
Misfit walk_fault(const LeafToFit& leaf);              // something walks each index, once
Misfit rows_fault(const LeafToFit& leaf);              // whether a block may have rows of several indices
Misfit role_fault(const LeafToFit& leaf);              // which indices may stand where
Misfit form_fault(const LeafToFit& leaf);
Misfit size_fault(const LeafToFit& leaf);              // of a block
Misfit part_fault(const LeafToFit& leaf);              // chunks, streamed stores, staging, the order of blocks

// For blocks of threads.
Misfit staged_fault(const LeafToFit& leaf);
Misfit turned_by_threads_fault(const LeafToFit& leaf);
Misfit tensor_cores_fault(const LeafToFit& leaf);
Misfit thread_fault(const LeafToFit& leaf);            // elements over threads, or a fold or scan by all together
Misfit pass_fault(const LeafToFit& leaf);              // online: all leaves of a pass have one tile

inline constexpr std::int64_t most_staged = 64;        // all of a stage is unrolled
inline constexpr std::int64_t most_products = 32;      // of a warp on tensor cores: 128 of the 255 registers of a
                                                       // thread
// That this target has such an instruction.
Misfit instruction_fault(const std::string& name, const Target& target);

}  // namespace tilec::codegen
