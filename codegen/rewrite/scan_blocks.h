// A long scan of few rows in blocks, each of which another core may scan.
//
//   Y[j] = +(X[k]), k <= j, 1000 values, blocks of 100
//     ⇒  Y_parts[b] = +(X[100 b + u]);  Y_before[c] = +(Y_parts[b]), b < c
//        Y[100 c + t] = +(u == 0 ? Y_before[c] + X[100 c + u] : X[100 c + u]), u <= t
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/nest.h"
#include "codegen/scan.h"
#include "poly/program.h"

namespace tilec::codegen {

// The statement at n, a scan, with what it begins with in front of it. `outputs`: those indices on which parts of its
// sums depend.
void scan_in_blocks(poly::Program& program, Strides& strides, std::size_t n, const Scan& scan, std::int64_t block,
    const std::vector<std::size_t>& outputs);

}  // namespace tilec::codegen
