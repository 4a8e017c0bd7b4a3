// report.css and report.js, embedded by runtime/embed.py at build time.
#pragma once

#include <span>
#include <string_view>

namespace tilec::cli::report {

struct Asset { std::string_view name, text; };
std::span<const Asset> styles();
std::span<const Asset> scripts();

}  // namespace tilec::cli::report
