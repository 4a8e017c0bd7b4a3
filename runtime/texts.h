// A text with all that it imports, as it was found: what a program is made of, for another process, which asks no
// folder for any of it.
//
//   f.tile, which imports "ops.tile"
//     ⇒  "tilec text 1\n", bytes, checksum, sources `f.tile` and `lib/ops.tile`, and: `ops.tile` in `f.tile` is the
//        second
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lang/load.h"

namespace tilec::runtime {

// What an import means: the name of a source.
struct Resolved {
  std::string path, importer, name;
  bool operator==(const Resolved&) const = default;
};

struct Texts {
  std::vector<lang::Source> sources;                   // the text itself first
  std::vector<Resolved> imports;
};

lang::Find recorded(lang::Find find, std::vector<Resolved>& imports);  // `imports` outlives it
lang::Find find_among(Texts texts);

std::string to_bytes(const Texts& texts);
Texts texts_from(std::string_view bytes);              // throws a std::string that says what is wrong

}  // namespace tilec::runtime
