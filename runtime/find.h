// Where `import "path";` looks: beside the importing file, in the folders of `--include` in order, then among the files of std/
// that the library brings along.
#pragma once

#include <string>
#include <vector>

#include "lang/load.h"

namespace tilec::runtime {

lang::Find find_in(std::vector<std::string> include);

}  // namespace tilec::runtime
