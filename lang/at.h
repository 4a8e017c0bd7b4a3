// What stands at a place of a text: for editors.
//
//   O[i: M] = +(A[i, k] * exp(W[k]));      at `k`     ⇒   an index, of this statement of this function
//                                          at `exp`   ⇒   a function
//
// Of a text that is no program, `outline` (load.h) makes a File of what has a tree; offsets stay those of the text.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"

namespace tilec::lang {

// A name where it is written, and in which role.
struct Mention {
  enum class Kind {
    Tensor,
    Size,
    Index,
    Function,
    Parameter,
    Type,
    Aggregation,
    Attribute,
    Constant,
    Dimension,
    Import,
    Prefix,
    Label
  } kind = Kind::Tensor;
  Name name;                                           // of an import: its path; of a function: with its prefix
  Span span;                                           // of a function: without its prefix, which is a mention of its
                                                       // own
  const Function* function = nullptr;                  // around it
  const Statement* statement = nullptr;
  const Import* import = nullptr;                      // of a prefix too, the first one that has it
  const Function* callee = nullptr;                    // of a label, `f<stride=2>(X, Beta=B)`: whose parameter or input
                                                       // it names; null: not known
};
std::vector<Mention> mentions(const File& file);       // in the order of the text, of the file alone; pointers point
                                                       // into it
// the offset behind a name's last letter counts as its
std::optional<Mention> mention_at(const File& file, std::size_t offset);

const Function* function_at(const File& file, std::size_t offset);
const Statement* statement_at(const Function& function, std::size_t offset);

// Inputs and assigned names, as spelled, in the order of the text.
std::vector<Target> tensors_of(const Function& function);
// Names that the inputs' brackets show and nothing else declares.
std::vector<Name> sizes_of(const Function& function);

// Where what is mentioned gets its meaning: the input or the assignment, the first input that shows a size, the
// parameter, the first mention of an index; of a label, what it names. Of a function: `definitions` of ast.h.
std::optional<Span> declaration(const Mention& mention);
std::vector<const Input*> inputs_that_show(const Function& function, const Name& size);
std::vector<const Statement*> statements_that_assign(const Function& function, const Name& name);

// What is around an offset of any text, by its tokens.
struct Surroundings {
  enum class Where { Top, Heading, Body, Attribute, Comment, ImportPath, String } where = Where::Top;
  std::size_t word = 0;                                // where the word that ends at the offset begins
  std::size_t function = 0;                            // where the last heading begins
  std::size_t statement = 0, statement_end = 0;        // in a body: of the statement
};
Surroundings surroundings(std::string_view text, std::size_t offset);
// The comment directly above a place, without its slashes and without the cases that `tilec test` runs.
std::string comment_above(std::string_view text, std::size_t offset);

}  // namespace tilec::lang
