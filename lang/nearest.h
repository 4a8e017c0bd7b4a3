// The word a mistyped one was probably meant to be.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::lang {

// The candidate with the least edit distance, if it is at most a quarter of the letters; case alone is no difference.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tilec::lang
