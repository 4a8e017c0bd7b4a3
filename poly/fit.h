// What a kernel adds up fits 64 bits: proven for every form of a bounded statement, or refused.
//
//   O[i: 600] = +(A[10^18*i - 999999999999999999*j]), 0 <= j < 500      ⇒  E0243: on the way the sum reaches 10^21
//
// Backends form c·i + d·j + e in the order that suits them, from 0 or from where a loop starts, and solve rows for an
// index. None of this leaves 64 bits while the sum of what each term can be at most stays below 2^61; ordinary programs
// stay below 2^40. What is larger is narrowed first: an index of one value becomes that value, an extent that no point
// attains comes closer. Likewise for addresses: the terms of an access times the strides of its tensor, in bytes, stay
// below 2^62.
//
// In:  a statement with its hulls (bounds.h).   Keeps: which points exist, and every value.
#pragma once

#include <optional>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::poly {

constexpr double reach_limit = 0x1p61;

// The sum of what the terms of a form can be at most, counted from 0 and from where the indices start. Rounded.
double reach(const Affine& form, const std::vector<Range>& domain);
// Of an access, in a tensor that lies at these strides: what its terms can be at most, in bytes.
constexpr double byte_limit = 0x1p62;
double reach_in_bytes(
    const Access& access, lang::DType type, const std::vector<double>& strides, const std::vector<Range>& domain);
void report_far(const std::string& tensor, double bytes, lang::Span span, lang::Diagnostics& diagnostics);

// Tensors are taken to be row-major.
std::optional<Statement> fitted(const Program& program, Statement statement, lang::Diagnostics& diagnostics);

}  // namespace tilec::poly
