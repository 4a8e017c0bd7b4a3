// What is called: is there such a function, and does a built-in one take what it is given? How much other functions
// take is for calls.cpp.
//
//   B = realu(A);   ⇒   error: there is no function `realu`     hint: did you mean `relu`?
#pragma once

#include <optional>
#include <string>

#include "lang/check/names.h"

namespace tilec::lang::checking {

bool is_function(const Names& here, const Name& name);  // a parameter or a function of this file
bool is_known(const Names& here, const Name& name);    // or built in
bool may_stand_in_parameters(const Names& here, const Name& name);  // between `< >`, whatever is called
void no_function(Names& here, const Name& name, const std::optional<std::string>& otherwise = std::nullopt);
void taken_and_given(Names& here, const Call& c, const Expr& e);  // of a known function

}  // namespace tilec::lang::checking
