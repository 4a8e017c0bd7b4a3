// The text of a plan as lines of words, each with its place.
//
//   contract C  over i  k k  block 4x2      // a comment
//     ⇒   words contract C over i k k block 4x2; parts begin at contract, over, k, block
//
// Parts are two blanks apart, so that `over j k  n i` is a list of two, whatever the indices are called.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lang/source.h"

namespace tilec::codegen {

// A plan that a caller gives, and which of the compilation's sources it is.
struct PlanText {
  std::string text;
  std::uint32_t source = 0;
};

struct PlanWord {
  std::string text;
  lang::Span span;
  bool first = false;                                  // of its part
};

// A line that is read from left to right.
class PlanLine {
 public:
  explicit PlanLine(std::vector<PlanWord> words) : words_(std::move(words)) {}
  bool more() const { return at_ < words_.size(); }
  const std::string& head() const { return words_.front().text; }
  std::string peek() const { return more() ? words_[at_].text : std::string(); }
  std::string next() { return more() ? words_[at_++].text : std::string(); }
  std::vector<std::string> list();                     // up to the next part
  bool begins_part() const { return more() && words_[at_].first; }
  lang::Span here() const;                             // of the next word; behind the last one, of that
  lang::Span span() const;                             // of the whole line

 private:
  std::vector<PlanWord> words_;
  std::size_t at_ = 0;
};

// Lines without words and comments are left out. `source`: which of a compilation's sources the text is.
std::vector<PlanLine> lines_of(const std::string& text, std::uint32_t source = 0);

// A number from 0; a comma may follow it.
std::optional<std::int64_t> number_in(std::string text);

// What cannot be read, and where.
struct PlanFault {
  lang::Span span;
  std::string what;
};

// A plan may say how the pair of a function is compiled, too: in two parts, behind lines `forward` and `backward`.
//
//   no copy                         of the function itself
//   forward
//     group Y                       of the pair's first half
//       …
//   backward
//     group dX
//       …
struct PlanParts {
  std::optional<PlanText> function, forward, backward;  // each alone, at its places in the text; none: nothing is said
                                                        // of it
  lang::Span first;                                    // line that says anything
};
// None with a fault: a part begins twice.
std::optional<PlanParts> parts_of(const PlanText& plan, PlanFault& fault);

}  // namespace tilec::codegen
