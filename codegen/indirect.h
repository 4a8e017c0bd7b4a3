// Gather and Scatter as Loops: rows found by a number that is read at run time.
//
//   gather O   n r  block 64x1  lanes 16
//     ⇒  for p in parallel …, 64 rows a turn:  c = clamp(I[row]);  O[row, r] = D[c, r], 16 r at a time
//   scatter O  m v  n r  block 512x1 …
//     ⇒  each turn owns 512 rows of O: zero, then every term of I that falls to them, in order
//
// A scattered element has one writer, which adds in the order of the terms: no atomics, and the same bits on every run.
//
// In:  the nest of the Intrinsic (dims b… j… v r…; reads {data, indices}), its leaf.  Out: the kernel's body.
#pragma once

#include <string>

#include "codegen/nest.h"
#include "codegen/plan.h"
#include "codegen/spelling.h"
#include "codegen/target.h"

namespace tilec::codegen {

Compute gather_leaf(const poly::Program& program, const Nest& nest, int node, const Target& target);
Compute scatter_leaf(const poly::Program& program, const Nest& nest, int node, const Target& target);

// `sums`: where terms are added up, the target itself or a tensor of its shape in a wider type.
TensorId sums_of(const poly::Intrinsic& scatter);
// The type in which terms of one type add up to elements of another; the latter where that changes no bit.
lang::DType sum_type(lang::DType terms, lang::DType target);

Body spell_gather(const Nest& nest, const Group& group, const Storage& storage, Names& names);
Body spell_scatter(
    const Nest& nest, const Group& group, const Storage& storage, const poly::Intrinsic& scatter, Names& names);

}  // namespace tilec::codegen
