// Programs: a function of a file, what it is called with, and the names of what goes in and comes out.
#pragma once

#include "lang/diagnostic.h"
#include "runtime/capi/handles.h"

namespace tilec::capi {

// Names from the program when it can be built without arguments, else from the text. False: errors are in
// `diagnostics`.
bool fill_names(tilec_program& program, lang::Diagnostics& diagnostics);

}  // namespace tilec::capi
