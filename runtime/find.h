// Where `import "path";` looks: beside the importing file, in the folders of `--include` in order, then among the files
// of std/ that the library brings along.
#pragma once

#include <string>
#include <vector>

#include "lang/load.h"

namespace tilec::runtime {

// The same file under one name, however it is reached: as the sources that `find_in` finds are called.
std::string name_of_file(const std::string& path);
lang::Find find_in(std::vector<std::string> include);

}  // namespace tilec::runtime
