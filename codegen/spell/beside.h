// Two leaves that a thread computes one behind the other, over the same steps, as one.
//
//   acc = 0; for n in 32 { acc += X[n] }  S = acc;    acc_1 = 0; for n_1 in 32 { acc_1 += X[n_1] * Y[n_1] }  T = acc_1
//     ⇒  acc = 0; acc_1 = 0; for n in 32 { acc += X[n]; let n_1 = n; acc_1 += X[n_1] * Y[n_1] }  S = acc; T = acc_1
//
// What both read, the device's compiler reads once.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "codegen/loops.h"
#include "codegen/nest.h"
#include "codegen/plan.h"
#include "codegen/spelling.h"

namespace tilec::codegen {

// How many leaves from `first` on have the same points in the same order, and read nothing of each other.
std::size_t leaves_beside(const std::vector<Compute>& leaves, const std::vector<Nest>& nests, const Storage& storage,
    std::size_t first);
// Of so many leaves.
Body all_beside(std::size_t count, const std::function<Body(std::size_t)>& spell);

}  // namespace tilec::codegen
