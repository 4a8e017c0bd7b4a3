// The pages of docs/errors, embedded by runtime/embed.py at build time.
#pragma once

#include <span>
#include <string_view>

namespace tilec::cli {

struct ErrorPage { std::string_view code, text; };
std::span<const ErrorPage> error_pages();              // sorted by code

}  // namespace tilec::cli
