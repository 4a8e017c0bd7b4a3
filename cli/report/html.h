// Text inside HTML.
#pragma once

#include <string>
#include <string_view>

namespace tilec::cli::report {

// Of any bytes: what means something to HTML is spelled, what is no UTF-8 or no character becomes U+FFFD.
std::string escaped(std::string_view text);

}  // namespace tilec::cli::report
