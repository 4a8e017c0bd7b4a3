// Program text with a name, and places in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilec::lang {

// Bytes [begin, end) of a source. An empty span with begin = end = 0 means "no place in the text".
struct Span {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t source = 0;                            // position in the list of sources a compilation read; 0 is the
                                                       // file itself
  bool operator==(const Span&) const = default;
  bool empty() const { return end <= begin; }
};

struct Source {
  std::string name;                                    // as the user would write the path; "<text>" without one
  std::string text;
};

struct Position { int line = 1, column = 1; };         // from 1; columns count bytes
Position position(const Source& source, std::uint32_t offset);
std::string_view line(const Source& source, int number);

}  // namespace tilec::lang
