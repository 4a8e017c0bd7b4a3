// The whole way, text in, every stage out: what a request means, then what is chosen for its machine.
//
// In:  a parsed and checked File, how it is called, and how far to go.
// Out: every stage up to `until`; nullopt when the program is at fault (the errors are in `diagnostics`).
#pragma once

#include <optional>

#include "codegen/choice.h"
#include "codegen/meaning.h"
#include "codegen/request.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

struct Stages : Meaning, Chosen {};

std::optional<Stages> compile(const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics);

}  // namespace tilec::codegen
