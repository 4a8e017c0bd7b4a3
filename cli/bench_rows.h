// What `tilec bench --json` writes: a row, an object of JSON on a line of its own. A file may hold several.
#pragma once

#include <string>
#include <vector>

#include "runtime/samples.h"

namespace tilec::cli {

using runtime::Interval;

std::string time_text(double seconds);                 // `12.34 us`

struct BenchRow {
  std::string name, target;
  std::vector<std::string> inputs;                     // `A=20x30xf32`
  int threads = 0;                                     // 0: all
  Interval seconds = {};                               // of a call
  std::string title() const;                           // what tells it from other rows of a file
};

// RuntimeError E0501 with line and column where it is no such file.
std::vector<BenchRow> read_bench_rows(const std::string& path);

}  // namespace tilec::cli
