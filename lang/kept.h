// Imported files that an earlier text of this process read and checked, for the next that begins with the same imports.
//
//   import "std/nn.tile"; …    then another text:   import "std/nn.tile"; …   ⇒   the same File, not read again
//
// A file is the same only where all that it imports still means the same texts: the loader asks again for each of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

using FilesByName = std::map<std::string, std::shared_ptr<const File>>;

struct KeptImport {
  struct Asked { std::string path, importer, name; };
  std::uint32_t number = 0;                            // of its first source, as spans number them
  FilesByName before;                                  // read when it was met
  std::vector<Source> sources;                         // its own first, then those it imports that were not read before
  std::vector<Asked> asked = {};                       // in order
  FilesByName after = {};
  std::vector<Diagnostic> said = {};
};

std::shared_ptr<const KeptImport> kept_import(
    const Source& source, std::uint32_t number, const FilesByName& before);  // null: none
void keep_import(KeptImport made);                     // in place of the one that was not used for longest

}  // namespace tilec::lang
