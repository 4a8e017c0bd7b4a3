// A file that is not there, and one beside where it was looked for whose name is like it: `did you mean `add.tile`?`
#pragma once

#include <optional>
#include <string>

#include "runtime/error.h"

namespace tilec::cli {

std::optional<std::string> near_file(const std::string& path);  // nothing where the path leads somewhere

// What `read` gives; where it finds no file, its fault says which is near.
template <class Read> auto with_near_file(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (runtime::RuntimeError& fault) {
    if (fault.diagnostic.code == runtime::messages::unreadable.code && fault.diagnostic.hints.empty())
      if (const auto near = near_file(path)) fault.hint("did you mean `" + *near + "`?");
    throw;
  }
}

}  // namespace tilec::cli
