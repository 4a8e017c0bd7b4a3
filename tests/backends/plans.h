// Random plans of a random program: directives and leaves that tilec takes for legal, so that every result must be right.
#pragma once

#include <map>
#include <string>

#include "case.h"

namespace backends {

// A plan for the request's target, drawn line by line; what is refused is drawn again. `counts` says how often each word was taken.
std::string random_plan(const Case& c, const codegen::Request& request, Random& random, std::map<std::string, int>& counts);

// What differs between what was compiled and what the print of its plan is compiled to; empty: nothing.
std::string replay_fault(const Case& c, const codegen::Request& request, const codegen::Stages& chosen);

}  // namespace backends
