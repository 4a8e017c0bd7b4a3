// A statement while it is rewritten, and what the text around it says: the sizes of tensors, the names taken.
//
//   function f(E[I, J]) -> (Y) { Y[i, j: I, J] = =(E[i, j] / sum(E[i, k])); }
//     ⇒  shape("E") is I J, kept() is (i, I) (j, J), size_of_index("k") is J, fresh("Sum") is "Sum" and then "Sum2"
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lang/repair/token_text.h"

namespace tilec::lang::repair {

using Sizes = std::vector<std::string>;

bool is_index_name(std::string_view word);             // does it begin with a lower-case letter?

struct Draft : TokenText {
  // before: from the heading to the statement; function: all of it
  Draft(std::string_view statement, std::string_view before, std::string_view function);

  std::string result;                                  // `Y` of `-> (Y)`: what a `return` means
  std::string note;                                    // what may differ from what was meant
  std::map<std::string, Sizes> shapes;                 // of inputs and of what statements assign with sizes
  std::set<std::string, std::less<>> words;            // of the function
  std::vector<std::string> before;                     // statements in front of it

  // A name that the function does not have yet; of an index, a letter where `base` is taken.
  std::string fresh(std::string_view base, bool index = false);
  const Sizes* shape(std::string_view name) const;     // null: not known
  void put_before(
      const std::string& name, const std::vector<std::string>& indices, const Sizes& sizes, const std::string& value);
  // A value in front, or, where it is all of the right side, in place of the statement.
  bool compute(std::size_t first, std::size_t last, std::string_view name, const std::vector<std::string>& indices,
      const Sizes& sizes, const std::string& value);

  // The left side: does it name an element, and where are its brackets?
  bool has_element() const;
  std::size_t element() const;
  // Indices of the left side that stand alone, with their sizes where these are written.
  std::vector<std::pair<std::string, std::string>> kept() const;

  // The size of a dimension that is read at exactly this index.
  std::optional<std::string> size_of_index(std::string_view index) const;
  std::optional<std::string> index_size(const std::string& index) const;  // as the left side says, else as it is read
  std::set<std::string> indices_in(std::size_t first, std::size_t last) const;  // lower-case names inside brackets
  bool is_outermost(std::size_t i) const;              // is this the aggregation of the whole statement?
};

}  // namespace tilec::lang::repair
