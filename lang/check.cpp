#include "lang/check.h"

namespace tilec::lang {

bool check(const File&, Diagnostics& diagnostics) { return !diagnostics.has_errors(); }

}  // namespace tilec::lang
