// What a parse knows of itself: how far it got and what was expected there, how deep it is, and what ends it.
//
//   `X = A[i + ;`   ⇒   furthest: the `;`   expected: "an index expression"
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang::grammar {

using It = const char*;

constexpr int max_nesting = 256;                       // of brackets, `-` and `?`
constexpr int max_height = 1024;                       // of a tree: a sum of a thousand terms is as deep as one bracket
                                                       // in another

struct Failed {};                                      // no alternative can help any more
struct TooDeep { It at; int limit; std::string_view what; };
struct Chained { Span span; Op op; };

struct Progress {
  It begin;
  std::uint32_t source;
  It furthest = nullptr;
  std::vector<std::string_view> expected;              // at `furthest`
  int depth = 0, quiet = 0;
  std::vector<Diagnostic> warnings;                    // hold only if the text they are about was read that way
  std::vector<Name> prefixed;                          // so do these: what is called by `loss.mean`

  void failed(It at, std::string_view what) {
    if (quiet || at < furthest) return;
    if (at > furthest) expected.clear();
    furthest = at;
    if (std::find(expected.begin(), expected.end(), what) == expected.end()) expected.push_back(what);
  }
  Span span(It from, It to) const {
    return {static_cast<std::uint32_t>(from - begin), static_cast<std::uint32_t>(to - begin), source};
  }
};

inline bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// An item of a file; of a function, its heading.
struct Item { std::variant<Import, Dim, Function> node; };

// Read one at `at`, which then stands behind it. False, or throws Failed, TooDeep or Chained: it is none.
bool read(Progress& progress, It& at, It end, Item& out);
bool read(Progress& progress, It& at, It end, Statement& out);

}  // namespace tilec::lang::grammar
