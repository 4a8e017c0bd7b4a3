// Argsort as Loops: chunks sorted by merging, then merged with each other, each part of a merge on its own.
//
//   sort I  block 1x1  chunk 4096
//     ⇒  keys and positions of each row in chunks of 4096, sorted; then runs of 4096 and 4096 into 8192, …
//
// Where only the first places of an order are read, and few (top_k), a CPU keeps the first so far and sorts nothing.
//
// In:  the nest of the Intrinsic (dims b… v; reads {keys}), its leaf.  Out: the kernel's body.
#pragma once

#include "codegen/nest.h"
#include "codegen/plan.h"
#include "codegen/spelling.h"
#include "codegen/target.h"

namespace tilec::codegen {

lang::DType key_type(lang::DType type);                // what keys are compared in
// How many places of the order are read, from the first on.
std::int64_t places_read(const poly::Program& program, TensorId order);
// Whether a CPU finds so few of so many without sorting them.
bool few_places(std::int64_t places, std::int64_t length);
// Whether its buffers are tensors of their own: a row that many turns share, or that no block's memory holds.
bool sorts_in_global_memory(const Nest& nest, lang::DType keys, std::int64_t places, const Target& target);

Compute sort_leaf(const poly::Program& program, const Nest& nest, int node, const Target& target);
Body spell_sort(
    const Nest& nest, const Group& group, const Storage& storage, const poly::Intrinsic& sort, Names& names);

}  // namespace tilec::codegen
