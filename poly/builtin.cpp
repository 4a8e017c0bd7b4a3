// One function per built-in; the table at the end lists them.
#include "poly/builtin.h"

namespace tilec::poly {

bool is_builtin(std::string_view) { return false; }

std::optional<Named> invoke(Scope&, const Invocation&) { return std::nullopt; }

}  // namespace tilec::poly
