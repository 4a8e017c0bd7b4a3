// A set of statements whose rows are any of their indices, sums over them included, where that moves fewer bytes than
// rows that are first dimensions.
//
//   Mx[j] = >(X[i, j]);  E[i, j] = =(exp(X[i, j] - Mx[j]));  S[j] = +(E[i, j])    ⇒   rows j, in strips: X is read once
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "codegen/choose/traffic.h"

namespace tilec::codegen {

struct OpenSet { std::vector<int> nodes; std::vector<Member> members; double saved = 0; };

// Grown from the statement `first`. `free`: nodes of the program that may join it. None: it would save nothing.
std::optional<OpenSet> grown_by_any_rows(const poly::Program& program, const Strides& strides, const Target& target,
    int first, const std::function<bool(std::size_t node)>& free);

// Whether it sums over a row.
bool sums_over_rows(const Member& member);

}  // namespace tilec::codegen
