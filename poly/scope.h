// What the names of one function stand for while it is built, and the two kinds of integers known before the run:
// sizes, where `/` truncates, and affine index expressions, where `/` is exact.
//
//   P = K/2;  A[x - P, (y - K)/2]     K = 5   ⇒   P is the size 2; the elements are x - 2 and (y - 5)/2
//
// Nothing here throws: what cannot be understood is reported and comes back as nullopt.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/choice.h"
#include "lang/diagnostic.h"
#include "poly/program.h"
#include "poly/typing.h"

namespace tilec::poly {

struct Named {
  enum class Kind {
    Tensor,
    Size,
    Weak,                                              // a scalar without a type: `Eps = 1e-5;`
    Tuple,
    Element,                                           // a scalar of the statement being built: an argument of a
                                                       // function that is inlined into it
    Failed                                             // its statement was reported; uses stay silent
  };
  Kind kind = Kind::Failed;
  TensorId tensor = -1;
  bool weak = false;                                   // a tensor that is a Python number: takes the other operand's
                                                       // type
  Size size;
  bool literal = false;                                // a size made of literals alone
  std::optional<Scalar> scalar = {};                   // of Weak, without indices; of Element
  std::vector<TensorId> reads = {};                    // what its Read k reads
  std::vector<Named> elements = {};                    // of Tuple
  std::vector<Size> shape = {};                        // of Element, in an elementwise statement
  std::optional<double> absent = {};                   // of an input that is not given: its default
  Span span = {};

  bool operator==(const Named&) const = default;
  static Named of_tensor(TensorId id, Span span, bool weak = false);
  static Named of_size(Size size, Span span, bool literal = false);
};

// What a name in < > stands for; `max` is a function and an aggregation until it is used.
struct Parameter {
  std::optional<lang::Definition> function = {};
  std::string builtin = {};                            // a built-in function of this name
  std::optional<Aggregation> aggregation = {};
  bool operator==(const Parameter&) const = default;
};

// Inputs whose type nothing says are taken for f32. Where one must be something else, it is noted, and build starts
// again.
struct Assumed { std::set<TensorId> inputs = {}; std::map<std::string, DType> wanted = {}; };

// The `gradient` or `tangent` of a function for arguments of one kind. Calls that agree in all this share it, and so
// does a call inside it.
struct Derivation {
  lang::Definition definition = {};
  std::map<std::string, Named> numbers = {};           // its compile-time parameters, like `parameters`
  std::map<std::string, Parameter> parameters = {};
  lang::Chosen chosen = {};
  std::vector<Named> arguments = {};                   // without places; tensors by their position among `tensors`
  std::vector<std::pair<DType, std::vector<Size>>> tensors = {};
  std::optional<Program> made = {};                    // nothing while it is being made, and after an error
};

// What a callee uses each input of a call for. Extent: a size, or a tensor that has it (scatter's third).
enum class InputUse { Value, Size, Extent };

// How large a function's one expression is once its calls are written out: nodes of its own, and how often each input
// occurs.
struct Expansion { double nodes = 0; std::vector<double> inputs = {}; };

// What the texts of functions tell of calls: found once for a function and the functions that it is given in < >.
struct KnownTexts {
  using Key = std::pair<const lang::Function*, std::map<std::string, const lang::Function*>>;
  std::map<Key, bool> gives_size = {};
  std::map<Key, std::vector<InputUse>> size_inputs = {};
  std::map<const lang::Function*, std::optional<Expansion>> expansions = {};
};

// Functions inlined into one program. Below its own statements, the same call of the same arguments is inlined once:
// `f(X) + f(X)` in twenty functions on top of each other is twenty calls and not a million.
struct InlinedCall { Derivation like = {}; std::optional<Named> made = {}; };  // nothing: it was reported
struct InlinedCalls {
  std::multimap<std::size_t, InlinedCall> known = {};  // by a hash of function and arguments
  std::int64_t count = 0;
  bool over = false;                                   // a limit was reported: nothing more is inlined
};

// How many dimensions a pack stands for, and what said so.
struct Pack { std::size_t rank = 0; std::string said_by = {}; Span span = {}; };

struct Scope {
  lang::Diagnostics& diagnostics;
  Program program = {};
  const lang::File* file = nullptr;                    // whose functions are called by name
  std::map<std::string, Named> names = {};             // by the name as spelled
  std::map<std::string, Parameter> parameters = {};    // compile-time parameters that are no numbers
  lang::Chosen chosen = {};                            // of those that are one of several names
  std::set<std::string> declared = {};                 // anywhere in the function
                                                       // (docs/language.md#names-and-comments): such a name is never an
                                                       // index
  std::set<std::string> used_as_size = {};             // what sizes, index expressions and constraints mention
  std::set<std::string> used_as_extent = {};           // what stands for an extent in `scatter(E, I, V)`, a width in
                                                       // `as_float(X, V)`: a size, or a tensor that has it
  std::set<std::string> used_as_value = {};            // what a value mentions: in `as_float(X, V)` it stands for its
                                                       // type, not for a width
  std::set<std::string> used_as_default = {};          // results that another statement completes
  bool failed = false;
  std::shared_ptr<Assumed> assumed = std::make_shared<Assumed>();
  // of a program's scopes and of those of its derivatives
  std::shared_ptr<std::vector<Derivation>> derivations = std::make_shared<std::vector<Derivation>>();
  std::shared_ptr<InlinedCalls> inlined = std::make_shared<InlinedCalls>();  // of a program's scopes
  std::shared_ptr<KnownTexts> texts = std::make_shared<KnownTexts>();
  bool keeps = false;                                  // [[save]], [[recompute]]: the statement makes a tensor of its
                                                       // own
  int nested = 0;                                      // calls around this derivative
  int depth = 0;                                       // calls around a function that is being inlined
  std::map<std::string, std::string> called = {};      // what its results are called where it is called
  std::map<std::string, int> tried = {};               // for a name, how many of `name_1`, `name_2`, … are known to be
                                                       // taken

  std::map<std::string, Pack> packs = {};              // by the name as spelled: those of the heading, then those that
                                                       // statements index with
  // of inputs, and of targets of statements that have packs
  std::map<std::string, std::vector<lang::Expr>> sizes_written = {};

  const Tensor& tensor(TensorId id) const { return program.tensor(id); }
};

Named number_of(const lang::Number& number, Span span);   // one of the text: a size, else what waits for its type

// Also of what is assigned later: `declared` and `used_as_size` from the text alone.
void find_declared(const lang::Function& function, Scope& scope);
void find_used_as_size(const lang::Function& function, Scope& scope);

std::string fresh(Scope& scope, const std::string& wish);          // `Y`, else `Y_1`, …: no name of this scope
// While a program is built, the name of a tensor is a wish, which several may have: what the function calls it, or the
// caller of the function.
std::string wished_name(const Scope& scope, const std::string& name);
TensorId add_tensor(Scope& scope, Tensor tensor);
void name_tensors(Scope& scope);                       // at the end: each gets one of its own, those that the function
                                                       // names before the others
// of the inputs that `tensor` is made of and whose type is assumed
void want(Scope& scope, TensorId tensor, DType type);
bool is_index(const Scope& scope, const lang::Name& name);
// reports when there is none; null for Failed too
const Named* find(const Scope& scope, const lang::Name& name, Span span);

// Every name in `expr` outside the functions of calls, in the order of the text.
void names_in(const lang::Expr& expr, std::vector<lang::Name>& names);
// left == right: true when so, a Requirement when only bind can tell, false when not.
bool require_equal(Scope& scope, const Size& left, const Size& right, std::string message, Span span,
    std::vector<lang::Label> labels = {});

using lang::counted;
std::string shape_text(const std::vector<Size>& shape);                  // "[M, 3]"

}  // namespace tilec::poly
