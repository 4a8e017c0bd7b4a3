// Changes a program the way a person mistypes one: by tokens, numbers and whole statements, so that most of it still
// means something.
//
//   O[i: N] = +(A[i]);   ⇒   O[i: N] = +(A[i - 4611686018427387904]);
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

using Engine = std::mt19937_64;

// Text as words, numbers, strings, marks and what stands between them: joined again they are the text.
std::vector<std::string_view> tokens(std::string_view text);

// One to a few small changes.
std::string mutate(std::string_view text, Engine& engine);
// Two programs become one: statements, functions or runs of tokens of the second go into the first.
std::string splice(std::string_view first, std::string_view second, Engine& engine);

}  // namespace fuzz
