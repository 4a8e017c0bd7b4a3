// The schedule as a value: what is chosen for a Program on a target.
#pragma once

#include <string>

#include "poly/program.h"

namespace tilec::codegen {

struct Plan {
  poly::Program program;
  std::string target;
};

std::string print(const Plan& plan);

}  // namespace tilec::codegen
