// Directives: what a plan says of the Program before it is cut into groups, one rewrite a line.
//
//   inline E                            E is computed where it is read (inline.h)
//   absorb A                            the sum A goes into the sums that read it (factor.h)
//   unfold O                            what makes O's factors over both indices of its triangle is written out in it
//                                       (restate.h)
//   restate C                           conditions of C's sum become rows, its index the form that the value reads
//                                       (restate.h)
//   reach M                             the running extreme M has an element for each value, in a tensor of its own
//                                       (running.h)
//   gates H                             products over intervals that H sums are steps of a recurrence: what lies
//                                       between two of their factors (gates.h)
//   logs H                              products over intervals that H sums are told by running sums of logarithms
//                                       (intervals.h)
//   factor C  over k d                  C sums over k and d first, into a tensor of its own (factor.h)
//   chunks O  over s  by 32             O's triangle over s in chunks: within them as written, before them by states
//                                       (chunks.h)
//   seek A                              rows of the gather A are read where they lie, the scatter A is a sum (seek.h)
//   online M Z U  rows i  over j        M, Z and U in one pass over j, with what they read of [i, j] (online.h)
//   terms Y                             the terms of the scan Y first, into a tensor of their own (scan.h)
//   blocks Y  by 4096                   the scan Y in two passes of blocks of 4096 (scan.h)
//   windows Y                           the windows of Y as ends and beginnings of blocks, which are scans (window.h)
//   pairs dA  over n                    sums over n for each pair of elements of its operands first, which windows then
//                                       share (pairs.h)
//   split C  over k  by 4096            C in two stages, parts of 4096 of k (split.h)
//   center V  by M                      squares of X - m that V sums, where m waits for the sum M of X, are those of
//                                       distances to the first value that V sums (center.h)
//   copy B  in C  order 1 0             C reads a copy of B with its dimensions in this order (operands.h)
//   and, with `bits 11`, with f32 that are rounded to 11 bits, which tensor cores take as they are; with
//   `rows 8`, in rows that begin at multiples of 8 elements
//   stage C  order j i                  C is computed with its output indices in this order, and copied to where it
//                                       belongs (stage.h)
//   tile A_t C_s C  over i k  by 64 128 C_s is computed a box of 64 x 128 of i and k at a time, with copies of the
//   box's own (tile.h)
//   panels B  in C  along j  by 64      C reads a copy of B that lies in panels of 64 of j (operands.h)
//   finish S Y                          Y is computed by the threads that have the sums S, one launch (finish.h)
//   share S E Y  rows i                 one launch, whose turns have some rows i of all three; without
//                                       rows one block has all of them (rows.h)
//   rest Y                              what no statement of Y's chain writes, and a fill would first write all of, has
//                                       statements of its own (rest.h)
//
// They stand in the order in which they are applied, each over what those before it made; tensors and indices are
// called as that Program prints them. A word `read 1` chooses among several reads of one tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/plan_text.h"

namespace tilec::codegen {

namespace directives {

using Names = std::vector<std::string>;

// `parts` says how a directive is written: `io` prints or reads it.
struct Inline {
  static constexpr const char* word = "inline";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Inline&) const = default;
};
struct Absorb {
  static constexpr const char* word = "absorb";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Absorb&) const = default;
};
struct Unfold {
  static constexpr const char* word = "unfold";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Unfold&) const = default;
};
struct Restate {
  static constexpr const char* word = "restate";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Restate&) const = default;
};
struct Reach {
  static constexpr const char* word = "reach";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Reach&) const = default;
};
struct Gates {
  static constexpr const char* word = "gates";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Gates&) const = default;
};
struct Logs {
  static constexpr const char* word = "logs";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Logs&) const = default;
};
struct Factor {
  static constexpr const char* word = "factor";
  std::string tensor;
  Names sums;
  void parts(auto& io) { io.head(tensor), io.part("over", sums); }
  bool operator==(const Factor&) const = default;
};
struct Chunks {
  static constexpr const char* word = "chunks";
  std::string tensor, index;
  std::int64_t size = 0;
  void parts(auto& io) { io.head(tensor), io.part("over", index), io.part("by", size); }
  bool operator==(const Chunks&) const = default;
};
struct Seek {
  static constexpr const char* word = "seek";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Seek&) const = default;
};
struct Online {
  static constexpr const char* word = "online";
  Names tensors, rows;                                 // what folds over the index; indices of the first of them, the
                                                       // last in blocks
  std::string over;
  void parts(auto& io) { io.head(tensors), io.part("rows", rows), io.part("over", over); }
  bool operator==(const Online&) const = default;
};
struct Terms {
  static constexpr const char* word = "terms";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Terms&) const = default;
};
struct Blocks {
  static constexpr const char* word = "blocks";
  std::string tensor;
  std::int64_t size = 0;
  void parts(auto& io) { io.head(tensor), io.part("by", size); }
  bool operator==(const Blocks&) const = default;
};
struct Windows {
  static constexpr const char* word = "windows";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Windows&) const = default;
};
struct Pairs {
  static constexpr const char* word = "pairs";
  std::string tensor;
  Names sums;
  void parts(auto& io) { io.head(tensor), io.part("over", sums); }
  bool operator==(const Pairs&) const = default;
};
struct Split {
  static constexpr const char* word = "split";
  std::string tensor, index;
  std::int64_t size = 0;
  void parts(auto& io) { io.head(tensor), io.part("over", index), io.part("by", size); }
  bool operator==(const Split&) const = default;
};
struct Center {
  static constexpr const char* word = "center";
  std::string tensor, sum;
  void parts(auto& io) { io.head(tensor), io.part("by", sum); }
  bool operator==(const Center&) const = default;
};
struct Copy {
  static constexpr const char* word = "copy";
  std::string operand, reader;
  std::vector<std::int64_t> order;                     // the operand's dimensions, as they lie in the copy
  std::int64_t read = 0;                               // which of the reader's reads of the operand
  std::int64_t bits = 0;                               // of an f32 that the copy keeps; 0: all
  std::int64_t rows = 0;                               // begin at multiples of so many elements; 0: lie side by side
  void parts(auto& io) {
    io.head(operand), io.part("in", reader), io.part("order", order), io.unless_0("read", read, false),
        io.unless_0("bits", bits, false), io.unless_0("rows", rows);
  }
  bool operator==(const Copy&) const = default;
};
struct Stage {
  static constexpr const char* word = "stage";
  std::string tensor;
  Names order;                                         // output indices, outermost first
  void parts(auto& io) { io.head(tensor), io.part("order", order); }
  bool operator==(const Stage&) const = default;
};
struct Tile {
  static constexpr const char* word = "tile";
  Names tensors, over;                                 // what one launch computes; indices of the contraction among
                                                       // them
  std::vector<std::int64_t> by;
  void parts(auto& io) { io.head(tensors), io.part("over", over), io.part("by", by); }
  bool operator==(const Tile&) const = default;
};
struct Panels {
  static constexpr const char* word = "panels";
  std::string operand, reader, index;
  std::int64_t width = 0, read = 0;
  void parts(auto& io) {
    io.head(operand), io.part("in", reader), io.part("along", index), io.part("by", width), io.unless_0("read", read);
  }
  bool operator==(const Panels&) const = default;
};
struct Finish {
  static constexpr const char* word = "finish";
  Names tensors;                                       // the sum, or one of a pass, then what finishes it
  void parts(auto& io) { io.head(tensors); }
  bool operator==(const Finish&) const = default;
};
struct Share {
  static constexpr const char* word = "share";
  Names tensors, rows;                                 // what the statements compute; indices of the first one; none:
                                                       // one block of a GPU has all of them
  std::int64_t size = 0;                               // sums over the last of `rows` have parts of so many; 0: there
                                                       // are none
  void parts(auto& io) { io.head(tensors), io.unless_none("rows", rows), io.unless_0("parts", size); }
  bool operator==(const Share&) const = default;
};

struct Rest {
  static constexpr const char* word = "rest";
  std::string tensor;
  void parts(auto& io) { io.head(tensor); }
  bool operator==(const Rest&) const = default;
};

}  // namespace directives

using AnyDirective = std::variant<directives::Inline, directives::Absorb, directives::Unfold, directives::Restate,
    directives::Reach, directives::Gates, directives::Logs, directives::Factor, directives::Chunks, directives::Seek,
    directives::Online, directives::Terms, directives::Blocks, directives::Windows, directives::Pairs,
    directives::Split, directives::Center, directives::Copy, directives::Stage, directives::Tile,
    directives::Panels, directives::Finish, directives::Share, directives::Rest>;
struct Directive : AnyDirective {
  template <class T> requires requires { T::word; }
  Directive(T of) : AnyDirective(std::move(of)) {}     // NOLINT: implicit on purpose
  Directive(const Directive&);  // these five are long, so they are compiled once, in a .cpp
  Directive(Directive&&) noexcept;
  Directive& operator=(const Directive&);
  Directive& operator=(Directive&&) noexcept;
  ~Directive();
};

// Stages of the rewriting: what a plan says of a stage is all that is done there; of a stage of which it says nothing,
// all is chosen.
enum class RewriteStage { Inline, Sums, Seeks, Online, Scans, Pairs, Splits, Copies, Panels, Finishes, Rows, Rests };
RewriteStage stage_of(const Directive& directive);
std::optional<RewriteStage> stage_of(std::string_view word);  // none: the word begins no directive

std::string print(const Directive& directive);
std::string_view word_of(const Directive& directive);
// Of a line whose first word begins a directive.
std::optional<Directive> parse_directive(PlanLine line, PlanFault& fault);

}  // namespace tilec::codegen
