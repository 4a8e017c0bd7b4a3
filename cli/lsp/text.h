// Places as editors count them, lines from 0 and columns in units of UTF-16, and files as they name them.
//
//   `// 😀 x` has its `x` at byte 8 and at column 6;   /tmp/a b.tile  ⇔  file:///tmp/a%20b.tile
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::cli::lsp {

struct Spot {
  std::size_t line = 0, column = 0;
  bool operator==(const Spot&) const = default;
};

class Lines {
 public:
  explicit Lines(std::string_view text);               // which outlives this
  Spot spot(std::size_t offset) const;
  std::size_t offset(Spot spot) const;                 // of one behind its line's end, that end

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;
};

std::optional<std::string> path_of(std::string_view uri);  // absolute; nothing when it is no file
std::string uri_of(const std::string& path);

}  // namespace tilec::cli::lsp
