// A function of std/ in place of a file: `tilec run std:softmax X=…`.
//
//   std:softmax          ⇒   {"std/softmax.tile", its text, "softmax"}
//   std:statistics.mean  ⇒   {"std/statistics.tile", its text, "mean"}, a name that several files have
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"

namespace tilec::cli {

struct StandardFunction { std::string path; std::string_view text; std::string function; };

bool is_standard(std::string_view word);                // begins with `std:`
StandardFunction standard_function(const std::string& word);  // UsageError with suggestions where there is none, or
                                                              // several
// `std:conv2d_nchw` of `std:conv2d` and `channels_first`; none where a function has one order of dimensions alone.
std::optional<std::string> standard_in_layout(const std::string& word, const std::string& layout);
std::string standard_word(const std::string& function);  // `std:softmax` of `softmax`; empty where there is none, or
                                                         // several
std::vector<std::string> standard_words();              // all there are, the file's name in front where others have the
                                                        // function's too
bool names_program(std::string_view word);              // a file of Tile, `-`, or a function of std/; not a command or
                                                        // a code

using Shapes = std::map<std::string, std::vector<std::int64_t>>;  // of inputs; an extent that is not known is 0
// What `[[ask("dim")]]` of a function wants said, because others mean it otherwise where it is not: UsageError unless
// it is in `defines` or makes no difference for these shapes.
void refuse_unsaid(const std::string& word, const lang::Function& function, const std::set<std::string>& defines,
    const Shapes& shapes);

}  // namespace tilec::cli
