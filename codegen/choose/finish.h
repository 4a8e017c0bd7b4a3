// Which statements finish sums where their threads have them (rewrite/finish.h): those that move fewer bytes so.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

void finish_sums(Rewriting& r);

}  // namespace tilec::codegen
