// The words behind the programs of this folder: `--seed 7 --plans`.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace backends {

// Where the value of a word goes; a bool has none, a list takes one more each time.
using Place = std::variant<std::uint64_t*, std::int64_t*, int*, std::optional<std::uint64_t>*, std::optional<int>*,
    bool*, std::string*, std::vector<std::string>*>;

inline void read_options(int argc, char** argv, const std::map<std::string_view, Place>& places) {
  const auto stop = [](std::string_view what, std::string_view word) {
    std::cerr << what << " " << word << "\n";
    std::exit(2);
  };
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const auto at = places.find(word);
    if (at == places.end()) stop("unknown argument", word);
    const bool has_value = !std::holds_alternative<bool*>(at->second);
    if (has_value && k + 1 == argc) stop("no value behind", word);
    const std::string value = has_value ? argv[++k] : "";
    std::visit(
        [&](auto* place) {
          using To = std::remove_pointer_t<decltype(place)>;
          if constexpr (std::is_same_v<To, bool>) *place = true;
          else if constexpr (std::is_same_v<To, std::string>) *place = value;
          else if constexpr (std::is_same_v<To, std::vector<std::string>>) place->push_back(value);
          else if constexpr (std::is_same_v<To, std::int64_t>) *place = std::stoll(value);
          else if constexpr (std::is_same_v<To, std::uint64_t> || std::is_same_v<To, std::optional<std::uint64_t>>)
            *place = std::stoull(value);
          else *place = std::stoi(value);
        },
        at->second);
  }
}

}  // namespace backends
