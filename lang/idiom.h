// What people type who come from NumPy, PyTorch, Python, C or MATLAB, and what to type in its place.
//
//   O = X ** 2;            ⇒  Tile has no operator `**`            hint: a power is `pow(X, 2)`
//   O = np.sum(A, axis=1); ⇒  Tile has no prefix `np.`             hint: `O[i: M] = +(A[i, k]);` adds over `k`, …
//
// One table (idioms.cpp). A row is found where reading stopped, by the tokens around that place, or by a name that
// means nothing here. Each row carries a program in which it is found and one that says the same in Tile; a test
// compiles both, and finds everything that the hint quotes in one of them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tilec::lang {

struct Idiom {
  enum class Kind { Item, Syntax, Function, Value, Type, Index } kind;
  // Item (between functions) and Syntax (in one): tokens, separated by blanks. WORD, TYPE, NUMBER, ATOM (WORD or
  // NUMBER), STRING, OP (an arithmetic operator), AGG (what stands in front of `(` in an aggregation), `…` (any
  // balanced run within the statement, also none) match what they say; NEAR the token must touch the one before; START
  // matches at the start of a statement; `!` in front: reading stopped there. Other kinds: names, separated by blanks;
  // Index: of what cannot stand in an index expression, or `product`.
  std::string_view pattern;
  std::string_view what;                               // Item, Syntax: behind "Tile has no "
  std::string_view hint;                               // {0}, {1}, …: what the words, numbers, operators and runs of
                                                       // the pattern matched
  // Statements (of an Item: a file; else where `function` occurs, too) of
  // `function f(X[N], Z[N], A[M, K], B[K, N], I[J], S[]) -> (O)`, or whole programs.
  std::string_view wrong, right;
  std::string_view expected = {};                      // found only where the grammar would have taken this
};

std::span<const Idiom> idioms();

// A name that Tile has under another: `maximum` is `max` (other_names.cpp).
struct Alias { std::string_view foreign, name; };
std::span<const Alias> aliases();

// `shown`: where what is pointed at begins; of a heading the place where reading stopped.
struct Recognised { std::string what, hint; std::size_t begin, shown, end; bool is_item; };

// In the statement that begins at `begin`, whose reading stopped at `offset`, where `expected` would have been taken.
std::optional<Recognised> idiom_at(
    std::string_view text, std::size_t begin, std::size_t offset, std::string_view expected = {});
// Of a name that means nothing in Tile. A function's hint may be the import that has it.
std::optional<std::string> hint_for(Idiom::Kind kind, std::string_view name);

// What the files of std/ define, in the order of their names.
struct StandardName { std::string_view file, name, heading; };  // "softmax", "softmax", "softmax(X[M, N]) -> (Y)"
std::span<const StandardName> standard_names();
// What others call them, as `[[also("mm")]]` in front of `matmul` says.
struct OtherName { std::string_view other, file, name; };       // "mm", "linear", "matmul"
std::span<const OtherName> other_standard_names();
// Which function reads which order of dimensions, as `[[layout("…")]]` says: "conv2d", "channels_first", "conv2d_nchw".
struct LayoutName { std::string_view name, layout, function; };
std::span<const LayoutName> standard_layouts();

}  // namespace tilec::lang
