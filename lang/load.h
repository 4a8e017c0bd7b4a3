// A file with everything it imports.
//
//   import "std/nn.tile";   ⇒   File{ Import{ path, file = that file, itself loaded }, … }
//
// In:  the text, and how a path in it is found.   Out: the checked file; nothing when it or one it imports is at fault.
// `sources`, empty before, receives the text and then each imported one, as spans number them. A file that is imported
// twice is read once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

// The source a path means in the file called `importer`; else what to say about it. The name decides whether two are
// one file.
struct Found { std::optional<Source> source; std::string problem; };
using Find = std::function<Found(const std::string& path, const std::string& importer)>;

std::optional<File> load(
    const Source& source, const Find& find, std::vector<Source>& sources, Diagnostics& diagnostics);

// Of a text that is at fault, as it is while somebody types: the File of what has a tree, and of its imports, none of
// it checked. Statements at fault are missing; all offsets are those of the text.
File outline(const Source& source, const Find& find, std::vector<Source>& sources);

}  // namespace tilec::lang
