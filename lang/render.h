// Diagnostics as a person or a program reads them.
//
//   f.tile:2:15: error[E0201]: `A` has 2 dimensions but is read with 3 indices
//     2 |   B[i: M] = +(A[i, j, k]);
//       |               ^^^^^^^^^^
//     1 | function f(A[M, N]) -> (B) {
//       |            ------- declared here
//   hint: write `A[i, j]`
//
// With json, one object a line: {"file", "line", "column", "end_line", "end_column", "severity", "code", "message",
// "labels", "hints"}.
#pragma once

#include <string>
#include <vector>

#include "lang/diagnostic.h"

namespace tilec::lang {

struct RenderOptions { bool color = false; bool json = false; };

// `sources[s]` is the text that spans with `source == s` point into.
std::string render(const Diagnostics& diagnostics, const std::vector<Source>& sources, RenderOptions options = {});

// A text of any bytes as a string of JSON.
std::string in_json(std::string_view text);

}  // namespace tilec::lang
