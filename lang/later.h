// What the grammar has and the compiler does not yet: said clearly, in one place.
//
//   import "std/nn.tile";   ⇒   error: `import` is not part of this version of tilec
//
// In:  a parsed File.   Out: true when it uses nothing of the kind.
#pragma once

#include <string_view>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

[[nodiscard]] bool within_this_version(const File& file, Diagnostics& diagnostics);

// Is `name` a built-in function of the language that comes later?
bool is_later_function(std::string_view name);

}  // namespace tilec::lang
