// Programs: a function of a file, what it is called with, and the names of what goes in and comes out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "runtime/capi/handles.h"

namespace tilec::capi {

// Names from the program when it can be built without arguments, else from the text. False: errors are in
// `diagnostics`.
bool fill_names(tilec_program& program, lang::Diagnostics& diagnostics);

// The names of `count` arguments by position. Of a derivative the cotangents or tangents are the last: what it then is
// short of are inputs with a default, from the last one on, each with its own tangent.
//
//   f(X, G = 1) -> (Y), its gradient (X, G, dY) -> (dX, dG)        2 arguments are X and dY
std::vector<std::string> names_by_position(const tilec_program& program, std::size_t count);

}  // namespace tilec::capi
