// Says what is wrong with a program before ranks, types and sizes are known: names, counts, forms.
//
//   O[i: M] = +(A[i] * b);   ⇒   error: `b` is an index that no access bounds …
//
// In:  a parsed File.   Out: true when no error was reported (warnings may be).
// Keeps: the File; ranks, types and shapes are for poly/build.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

[[nodiscard]] bool check(const File& file, Diagnostics& diagnostics);

// What `[[allow(W0210)]]` in front of a statement or a function says, here or in what is imported: warnings that are
// not kept.
struct Allowed { std::string code; Span where; };
std::vector<Allowed> allowed_warnings(const File& file);
bool is_allowed(const std::vector<Allowed>& allowed, std::string_view code, Span at);

}  // namespace tilec::lang
