// One SPMD nest for lanes, threads and blocks: what a Plan spells out to, and all that the emitters read.
//
// Parallel / Block  ⊃  Thread  ⊃  Vector  ⊃  Serial, Unroll, If. Below a Vector or Thread loop the body is the program
// of ONE lane or thread. The emitters choose nothing: no hoisting, no reassociation, no unrolling that is not written
// here.
//
// Rules (verify):
//  1. A Register array is indexed by constants once Unroll is expanded: each element is a value (a phi at every Serial
//     loop and uniform If that stores it), never memory. Allocated inside Vector it holds a vector, outside a scalar.
//  2. Inside Vector an i64 is uniform, `a + s·lane`, or any value per lane (one that was loaded). Loads and stores:
//     s = 1 a vector, s = 0 a splat, else a gather / scatter. Extents of loops inside Vector are uniform.
//  3. An If on a condition that varies over lanes is a mask: loads and stores in it are masked, registers keep their
//     old value in the other lanes. It has no `otherwise`. Such Ifs nest (the masks are and-ed).
//  4. A Serial loop runs at least once (it tests at the bottom); who builds it writes the If where that is not known.
//  5. Barrier and Fold stand in uniform control flow. A Fold is a fixed tree.
//  6. Views alias only if they have one base.
//  7. A Transpose stands inside Vector, under no mask, and its array has as many registers as there are lanes. A
//     FoldRows and an Interleave too, and their arrays have as many registers at most.
//  8. Fragments are Register arrays of u32, or of f32 that are to be rounded (tensor_cores.h): a Fragment, an Exchange
//     and a Multiply are steps of a whole warp, in control flow that is the same for all its threads. What a Copy
//     brings is read behind a Barrier that waits for its group. A MultiplyShared is a step of four warps: what it reads
//     stays, and nobody touches its sums, until an Await waits for it.
//  9. Arithmetic follows docs/language.md#types and is typed: an Apply of integer type wraps in it. f16 and bf16 appear
//     only as the type of a Load, of a Cast and of the value of a Store; arithmetic is done in f32. Index arithmetic
//     (i64) never overflows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/matrix_instruction.h"
#include "lang/op.h"
#include "lang/type.h"
#include "poly/program.h"

namespace tilec::codegen {

using lang::DType;
using lang::Op;
using poly::Aggregation;

struct Constant;
struct Variable;
struct Load;
struct Operation;
struct Convert;

// A scalar expression; every node typed.
class Expr {
 public:
  using Node = std::variant<Constant, Variable, Load, Operation, Convert>;
  template <class T> Expr(T node);                     // NOLINT: implicit on purpose
  Expr(std::int64_t value);                            // NOLINT: an i64
  Expr(int value) : Expr(std::int64_t{value}) {}       // NOLINT
  template <class... Cases> decltype(auto) match(Cases&&... cases) const;
  template <class T> const T* as() const;
  DType type() const;
  bool operator==(const Expr& other) const;

 private:
  std::shared_ptr<const Node> node_;
};

struct Constant { DType type; std::int64_t integer = 0; double real = 0; bool operator==(const Constant&) const; };
// a loop index, Let, Fold or i64 parameter
struct Variable { std::string name; DType type = DType::I64; bool operator==(const Variable&) const = default; };
// type: the view's
struct Load { std::string view; Expr offset; DType type; bool operator==(const Load&) const = default; };
// type: Bool for comparisons. A third operand of a Div of f32 is the reciprocal of the second, which has a normal one:
// two multiply-adds make its product with the first the quotient (within 1.5 ulp where the first is below 2^-102), and
// no number where the first is infinite and the reciprocal no Constant. below_maximum: exp of what lies below 0 beside
// others of which one is 0, so that errors count as shares of 1; of two operands exp(a - b), with an error of b / 2^24,
// of three exp(a c - b), with one of a c / 2^23 besides
struct Operation {
  Op op;
  std::vector<Expr> operands;
  DType type;
  bool below_maximum = false;
  bool operator==(const Operation&) const = default;
};
struct Convert { Expr operand; DType type; bool operator==(const Convert&) const = default; };             // a cast

enum class Kind { Serial, Unroll, Vector, Parallel, Block, Thread };
enum class Memory { Register, Local, Shared };        // Local: scratch of one Parallel turn (CPU: locals.h); Shared: of
                                                      // one block
enum class Hint { Plain, Streaming };

struct Stmt;
using Body = std::vector<Stmt>;

struct Advance { std::string view; Expr step; };       // the view moves by `step` elements after every turn
// index runs 0 … extent - 1
struct For { std::string index; Kind kind; Expr extent; std::vector<Advance> advance; Body body; };
struct If { Expr condition; Body then, otherwise; };
struct Let { std::string name; Expr value; };          // of the value's type
// a pointer `base + offset`, in elements; of the base's type. alignment: bytes; 0: the element's; 1: no more is known,
// and neighbours stay accesses of their own. words: its elements are u32, whatever the base's are
struct View { std::string name, base; Expr offset; std::int64_t alignment = 0; bool words = false; };
// name = whether the view begins at a multiple of so many bytes, a power of two
struct Aligned { std::string name, view; std::int64_t bytes; };
struct Allocate { std::string name; DType type; std::int64_t count; Memory memory; };
struct Store { std::string view; Expr offset, value; Hint hint = Hint::Plain; };
// name = ⊕ of value over all lanes or threads of loop `over`; uniform. among: over so many neighbours of a warp, a
// power of two, each having that of its own
struct Fold { std::string name; Aggregation how; Expr value; std::string over; std::int64_t among = 0; };
struct Barrier { int pending = 0; };                   // also waits for all groups of Copies but the newest `pending`
// into the second cache, to be written as well as to be read; `first`: into the first
struct Prefetch { std::string view; Expr offset; bool to_write = false, first = false; };
struct Transpose { std::string name; };                // a Register array: register i of lane l and register l of lane
                                                       // i change places
struct Interleave { std::string name; bool apart = false; };  // a Register array of r registers: register i of lane l
                                                              // becomes element l·r + i of all of them in a row; apart:
                                                              // back
// a Register array: lane l of register 0 becomes ⊕ of register l over all lanes, l < rows
struct FoldRows { std::string name; Aggregation how; std::int64_t rows; };
// a Function of the same Loops
struct CallStmt { std::string function; std::vector<std::string> views; std::vector<Expr> integers; };
// `count` elements from global to shared memory, 4, 8 or 16 bytes at a multiple of them, asynchronously; zeros unless
// `there`, or, where that is a number, behind so many of them
struct Copy { std::string to; Expr at; std::string from; Expr offset, there; std::int64_t count = 1; };
struct Commit {};                                      // the Copies since the Commit before it are a group
// registers first .. first + 3: of four matrices of 8 rows of 16 bytes, the row at `offset` of thread 8 q + r being row
// r of the q-th
struct Fragment { std::string name; std::int64_t first = 0; std::string view; Expr offset; bool transposed = false; };
// a register of a Fragment: two f32 rounded to f16 or bf16; parts 3: bf16 whose sums they are, `step` registers apart
struct Pack { std::string name; std::int64_t at; DType type; Expr low, high; std::int64_t parts = 1, step = 0; };
// of an array of u32: register at + 1 of thread 2 i of a warp and register at of thread 2 i + 1 change places
struct Exchange { std::string name; std::int64_t at = 0; };
// so many words from a register on, two elements each, as one access at a multiple of its bytes
struct StorePacked { std::string view; Expr offset; std::string name; std::int64_t at = 0, words = 1; };
// c += a b
struct Multiply {
  const MatrixInstruction* instruction;
  std::string c;
  std::int64_t at_c;
  std::string a;
  std::int64_t at_a;
  std::string b;
  std::int64_t at_b;
};
// rows of 128 bytes along k, or, transposed, along m or n, where the next 128 bytes lie `panel` bytes on
struct SharedMatrix { std::string view; bool transposed = false; std::int64_t panel = 16; };
struct SharedProduct { std::int64_t at_c; Expr a, b; };
// a group: c += a b for each, of so many columns, asynchronously; a lies in shared memory or is a Fragment, which
// stays. `begins`: the first product of each c is c = a b
struct MultiplyShared {
  const MatrixInstruction* instruction;
  std::string c;
  std::int64_t columns;
  SharedMatrix a, b;
  std::vector<SharedProduct> products;
  bool begins = false;
};
// the groups of MultiplyShared but the newest `pending`; behind one for all of them, c is read: `count` registers from
// `at` on, or all
struct Await { int pending = 0; std::string c; std::int64_t at = 0, count = 0; };
struct Stmt {
  template <class T> Stmt(T of) : node(std::move(of)) {}  // NOLINT: implicit on purpose
  Stmt(const Stmt&);  // these five are long, so they are compiled once, in a .cpp
  Stmt(Stmt&&) noexcept;
  Stmt& operator=(const Stmt&);
  Stmt& operator=(Stmt&&) noexcept;
  ~Stmt();

  std::variant<For, If, Let, View, Aligned, Allocate, Store, Fold, Barrier, Prefetch, Transpose, Interleave, FoldRows,
      CallStmt, Copy, Commit, Fragment, Pack, Exchange, StorePacked, Multiply, MultiplyShared, Await>
      node;
};

enum class Direction { In, Out, InOut };
// bytes; 0: the element's
struct ViewParameter { std::string name; DType type; Direction direction = Direction::In; int alignment = 0; };
// Without Parallel, Block and Thread inside, a function whose strides and extents are parameters is a micro-kernel:
// functions that print alike (but for the name) are one object.
struct Function { std::string name; std::vector<ViewParameter> views; std::vector<std::string> integers; Body body; };
// constant i64s, read like a view of that name in any function
struct Table { std::string name; std::vector<std::int64_t> values; };

// `functions.back()` is the kernel, those before it are called by it. Its Parallel loop (CPU) or Block loops (SIMT: up
// to three, outermost is the slowest axis) stand at the top, perhaps after Lets and Views; several may follow each
// other.
struct Loops { std::vector<Function> functions; std::vector<Table> tables; };

void verify(const Loops& loops);                       // throws InternalError
std::string print(const Loops& loops);
std::string print(const Function& function);
std::string print(const Expr& expr);
std::string_view word(Kind kind);                      // as it prints

// Spelling: `e(i) * 4 + 1` builds and folds i64 arithmetic.
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr less(const Expr& a, const Expr& b);               // Bool
Expr at_least(const Expr& a, const Expr& b);           // a >= b
Expr both(const Expr& a, const Expr& b);               // Bool and
Expr minimum(const Expr& a, const Expr& b);            // i64
Expr maximum(const Expr& a, const Expr& b);
Expr floor_divide(const Expr& a, std::int64_t b);      // toward minus infinity, b > 0
Expr ceil_divide(const Expr& a, std::int64_t b);
constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }  // a >= 0
// Digits of a flat number, a >= 0: which of blocks of b it is in, and its place there. Up to b = 1 there is one place.
Expr quotient(const Expr& a, std::int64_t b);
Expr remainder(const Expr& a, std::int64_t b);
inline Expr i64(std::int64_t value) { return Expr(value); }
Expr var(std::string name);

template <class T> Expr::Expr(T node) : node_(std::make_shared<const Node>(std::move(node))) {}
template <class... Cases>
decltype(auto) Expr::match(Cases&&... cases) const {
  return std::visit(poly::Overloaded{std::forward<Cases>(cases)...}, *node_);
}
template <class T> const T* Expr::as() const { return std::get_if<T>(node_.get()); }

}  // namespace tilec::codegen
