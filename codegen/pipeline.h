// The whole way, text in, every stage out: what a request means, then what is chosen for its machine.
//
// In:  a parsed and checked File, how it is called, and how far to go.
// Out: every stage up to `until`; nullopt when the program is at fault (the errors are in `diagnostics`).
#pragma once

#include <optional>
#include <string>

#include "codegen/choice.h"
#include "codegen/meaning.h"
#include "codegen/request.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

struct Stages : Meaning, Chosen {};

// A function and its last derivative, from one meaning: it says what goes from one to the other (`split`).
struct Pair { Meaning meaning; Stages forward, backward; };

// Of a request for a pair: its meaning, and as far as a plan the plans of both halves.
std::optional<Stages> compile(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics);
std::optional<Pair> compile_pair(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics);

// As `parts_of` reads it.
std::string print(const Plan& forward, const Plan& backward);

}  // namespace tilec::codegen
