// The word a mistyped one was probably meant to be.
#pragma once

#include "lang/nearest.h"

namespace tilec::cli {

using lang::nearest;

}  // namespace tilec::cli
