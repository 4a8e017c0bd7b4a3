// The text as a tree. An expression is a handle to an immutable node; everything else is a plain struct with a Span.
//
// The tree keeps what the user wrote (`2i`, `a ? b` without `:`, operators grouped by precedence); meaning is given by
// check and poly/build.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lang/op.h"
#include "lang/source.h"

namespace tilec::lang {

// `#a` is {a, upper}, `$N` is {N, lower}: the mark is not part of the text, the kind is part of the identity.
// `loss.mean`, of `import … as loss;`, is {loss.mean, lower}.
struct Name {
  std::string text;
  bool upper = false;
  Span span;
  bool operator==(const Name& other) const { return text == other.text && upper == other.upper; }
  std::string spelled() const;                         // with `#` or `$` where the text alone would read as the other
                                                       // kind, or as a keyword
};

struct Number;
struct Variable;
struct Unary;
struct Binary;
struct Access;
struct Call;
struct Select;

// An expression. Copying is cheap (nodes are shared and never change); equality ignores location.
class Expr {
 public:
  using Node = std::variant<Number, Variable, Unary, Binary, Access, Call, Select>;
  Expr();                                              // the number 0, so that trees can be put together step by step
  template <class T> Expr(T node, Span span);
  template <class... Cases> decltype(auto) match(Cases&&... cases) const;
  template <class T> const T* as() const;              // null when the node is something else
  bool same_as(const Expr& other) const { return node_.get() == other.node_.get(); }
  bool operator==(const Expr& other) const;
  Span span() const { return span_; }
  Expr at(Span span) const { Expr copy = *this; copy.span_ = span; return copy; }
  int height() const { return height_; }               // 1 for a leaf; parse() keeps it small, so walks may recurse

 private:
  std::shared_ptr<const Node> node_;
  Span span_;
  int height_ = 1;
};

struct Number {
  std::string text;                                    // as written, a leading `-` included where the grammar puts it
                                                       // in the number
  bool is_float = false;
  std::uint64_t integer = 0;                           // magnitude, when !is_float
  double real = 0;                                     // value, always
  bool negative = false;
  bool operator==(const Number& o) const {
    return is_float == o.is_float && integer == o.integer && real == o.real && negative == o.negative;
  }
};
// pack: `b...`, which stands for any number of names (lang/pack.h)
struct Variable { Name name; bool pack = false; bool operator==(const Variable&) const = default; };
struct Unary { Op op; Expr operand; bool operator==(const Unary&) const = default; };   // Neg, Not
// `2i` is Mul, juxtaposed
struct Binary {
  Op op;
  Expr left, right;
  bool juxtaposed = false;
  bool operator==(const Binary& o) const { return op == o.op && left == o.left && right == o.right; }
};
struct Access { Name tensor; std::vector<Expr> element; bool operator==(const Access&) const = default; };
// In < >: `2`, `relu`, `K - 2`; with a label, `stride=2`. An Expr has numbers, names and `+ - * /`.
struct Argument {
  std::variant<Number, Name, Expr> value;
  Span span;
  std::optional<Name> label = {};
  bool operator==(const Argument& o) const { return value == o.value && label == o.label; }
};
// labels: of `f(X, G=B)`, as many as arguments; empty where no argument has one.
struct Call {
  Name function;
  std::vector<Argument> parameters;
  std::vector<Expr> arguments;
  std::vector<std::optional<Name>> labels = {};
  bool operator==(const Call&) const = default;
};
// `condition ? then : otherwise`; without `otherwise` only at the end of a contraction's body (`A[i] == B[j] ? C[k]`).
struct Select { Expr condition, then; std::optional<Expr> otherwise; bool operator==(const Select&) const = default; };

int tallest(const Number&);                            // of its operands, 0 of a leaf
int tallest(const Variable&);
int tallest(const Unary& n);
int tallest(const Binary& n);
int tallest(const Access& n);
int tallest(const Call& n);
int tallest(const Select& n);
template <class T>
Expr::Expr(T node, Span span) : span_(span), height_(1 + tallest(node)) {
  node_ = std::make_shared<const Node>(std::move(node));
}
template <class... Cases> struct Overloaded : Cases... { using Cases::operator()...; };
template <class... Cases> Overloaded(Cases...) -> Overloaded<Cases...>;
template <class... Cases>
decltype(auto) Expr::match(Cases&&... cases) const {
  return std::visit(Overloaded{std::forward<Cases>(cases)...}, *node_);
}
template <class T> const T* Expr::as() const { return std::get_if<T>(node_.get()); }

// [[ties(first)]], [[plan(tile(i, 8), "x", -1, 0.5)]]
struct Word;
struct Value { std::variant<std::shared_ptr<const Word>, Number, std::string> value; Span span; };
struct Word { Name name; std::vector<Value> values; Span span; bool parentheses = false; };
using Attribute = Word;

struct Target { std::optional<Name> dtype; Name name; Span span; };  // `f32 Y`

enum class AggregationSyntax { Sum, Product, Max, Min, Assign, Named };
// 0 <= p < e  ·  l < p <= e  ·  p <= e  ·  p >= e  ·  p == e  ·  p < e (which keeps Tile's hidden 0 <= p)
struct Constraint {
  enum class Form { Less, LessEqual, GreaterEqual, Equal, BetweenLess, BetweenLessEqual } form;
  std::optional<Expr> low;                             // of the two Between forms
  bool strict = false;                                 // of these: `low < p`, not `low <= p`
  Expr polynomial, bound;
  Span span;
};
// `-inf` is the Number; `inf` and `nan` are Names, as they may be declared
struct Default { std::variant<Number, Name> value; Span span; };

struct Assignment { Target target; Expr value; };
struct TupleAssignment { std::vector<Target> targets; Expr value; };
struct Contraction {
  Contraction();  // these six are long, so they are compiled once, in a .cpp
  Contraction(const Contraction&);
  Contraction(Contraction&&) noexcept;
  Contraction& operator=(const Contraction&);
  Contraction& operator=(Contraction&&) noexcept;
  ~Contraction();

  Target target;
  std::vector<Expr> element;                           // index expressions of the target
  std::vector<Expr> sizes;                             // after `:`
  bool colon = false;                                  // `O[:]`
  AggregationSyntax aggregation = AggregationSyntax::Sum;
  std::optional<Name> aggregation_name;                // when Named
  Expr body;
  std::vector<Constraint> constraints;
  bool no_defract = false, no_reduce = false;
  std::optional<Default> default_value;                // the last one written wins
};
struct Statement {
  Statement();  // these six are long, so they are compiled once, in a .cpp
  Statement(const Statement&);
  Statement(Statement&&) noexcept;
  Statement& operator=(const Statement&);
  Statement& operator=(Statement&&) noexcept;
  ~Statement();

  std::vector<Attribute> attributes;
  std::variant<std::monostate, Assignment, TupleAssignment, Contraction> node;  // monostate: an empty statement
  Span span;
};

// no brackets: nullopt; value: what it is where it is not given
struct Input { Target target; std::optional<std::vector<Expr>> sizes; Span span; std::optional<Argument> value = {}; };
// choices: of `mode={zeros, reflect}`; the first is the value too
struct Parameter { Name name; std::optional<Argument> value; std::vector<Name> choices = {}; };
struct Function {
  Function();  // these six are long, so they are compiled once, in a .cpp
  Function(const Function&);
  Function(Function&&) noexcept;
  Function& operator=(const Function&);
  Function& operator=(Function&&) noexcept;
  ~Function();

  enum class Role { Function, Gradient, Tangent } role = Role::Function;
  std::vector<Attribute> attributes;
  std::optional<Name> name;                            // none: the file's entry
  std::vector<Parameter> parameters;
  std::vector<Input> inputs;
  std::vector<Target> results;
  std::vector<Statement> statements;
  Span span;
  Span body;                                           // from `{` to `}`
  Span span_of_head() const { return name ? name->span : Span{span.begin, span.begin, span.source}; }
};
struct File;
// prefix: of `import "std/loss.tile" as loss;`; file: what `load` found under the path.
struct Import { std::string path; Span span; std::shared_ptr<const File> file; std::optional<Name> prefix = {}; };
struct Dim { std::vector<Name> names; Span span; };
// What stands between the tokens and a formatter must keep: a comment, or (empty text) one or more blank lines.
// own_line: nothing but blanks before it on its line
struct Trivia { std::string text; Span span; bool own_line = false; };
// Positions of a file's functions by name, and whose functions it may call beside its own; made once the file is whole.
struct FileIndex;
struct File {
  File();  // these six are long, so they are compiled once, in a .cpp
  File(const File&);
  File(File&&) noexcept;
  File& operator=(const File&);
  File& operator=(File&&) noexcept;
  ~File();

  std::vector<std::variant<Import, Dim, Function>> items;
  std::vector<Trivia> trivia;
  std::shared_ptr<const FileIndex> index = {};
};

// A function and the file whose names it uses.
struct Definition {
  const File* file = nullptr;
  const Function* function = nullptr;
  bool operator==(const Definition&) const = default;
};
const Function* function_of(const File& file, const Name& name, Function::Role role);  // of this file alone; null: none
// Files whose functions a file may call beside its own: those that it imports without a prefix, or under this one; but
// in place of one that only imports (`std/nn.tile`) the files that one imports. A prefix is known in its file alone.
std::vector<const File*> callable_imports(const File& file, const std::string& prefix = "");
// The parts of `loss.mean`; nothing of a name without a prefix.
struct Prefixed { std::string prefix; Name name; };
std::optional<Prefixed> prefixed(const Name& name);
Name with_prefix(const Name& prefix, const Name& name);
std::vector<Name> prefixes(const File& file);          // in the order of the imports
void make_index(File& file);                           // after its imports are known; without one, every name is looked
                                                       // for from the first item on
// Functions that `name` may mean in a file: its own, else those of its callable imports; with a prefix, of the imports
// under it. More than one is for the caller to refuse.
std::vector<Definition> definitions(const File& file, const Name& name, Function::Role role = Function::Role::Function);
// One that is not callable because it is an import of an import.
std::optional<Definition> hidden_definition(const File& file, const Name& name);
// How a file calls what it knows by `name` with a prefix only.
std::optional<Name> name_with_prefix(const File& file, const Name& name);

}  // namespace tilec::lang
