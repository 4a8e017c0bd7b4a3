// Random plans of a random program: directives and leaves that tilec takes for legal, so that every result must be
// right.
#pragma once

#include <map>
#include <string>

#include "case.h"

namespace backends {

// A plan for the request's target, drawn line by line; what is refused is drawn again. `counts` says how often each
// word was taken.
std::string random_plan(
    const Case& c, const codegen::Request& request, Random& random, std::map<std::string, int>& counts);

// How much wider a planned sum's bound is than what the interpreter gives: a plan may keep n terms in one register,
// whose error is n/2 eps of their sizes where they round alike; what tilec chooses keeps to less (poly/estimate.cpp).
double in_one_register(const poly::Program& bounded);

// What differs between what was compiled and what the print of its plan is compiled to; empty: nothing.
std::string replay_fault(const Case& c, const codegen::Request& request, const codegen::Stages& chosen);

}  // namespace backends
