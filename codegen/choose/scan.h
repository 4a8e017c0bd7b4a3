// The leaf of a scan: lanes over another output dimension, where its neighbours lie better than those along the scan.
//
//   Y[i, j] = +(X[k, j]), k <= i, 1000 x 64, AVX-512     ⇒   scan Y  along i  n j  lanes 16: 4 vectors of j a step of i
#pragma once

#include <utility>

#include "codegen/choose/facts.h"
#include "codegen/scan.h"

namespace tilec::codegen {

// And how many cycles it takes.
std::pair<Compute, double> choose_scan(const Facts& f, int node, const Scan& scan);

}  // namespace tilec::codegen
