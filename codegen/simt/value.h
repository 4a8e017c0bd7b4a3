// Expressions of Loops as text, with what is known of their size: an i64 that provably fits 32 bits is an `int`.
//
//   i in [0, 64), t in [0, 256):   256*i + t  ⇒  ((i * 256) + t)             an int
//   no bound on a table's element x:   x * y  ⇒  (long)((ulong)x * (ulong)y)  wraps
//
// GPUs have 32-bit integer units: a 64-bit multiplication is four instructions and two registers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "codegen/loops.h"
#include "codegen/simt/scalar.h"

namespace tilec::codegen::simt {

struct Interval { std::int64_t low, high; };           // both ends included

struct Value {
  std::string text;
  DType type = DType::I64;
  bool narrow = false;                                 // an i64 whose text is an `int`
  std::optional<Interval> range;                       // of an i64, and of a number of fewer bits
  // A narrow one that is -x, or c x with c < 0; a max, min or choice (`by`); one with such an operand.
  enum class Made { Otherwise, Negation, Extreme, ExtremeOfNegation } made = Made::Otherwise;
  Op by = Op::Max;
};

enum class Space { Global, Shared, Private, Constant };

// What a view's name means: `pointer[offset + index]`.
struct Place {
  std::string pointer;
  DType type = DType::F32;
  Space space = Space::Global;
  bool constant = false;                               // only read
  std::optional<Value> offset;                         // of a view of a Register array, which has no address
  std::optional<Interval> elements;                    // of a table: the range of its values
  bool narrow = false;                                 // of a table: its elements are `int`
  bool apart = false;                                  // neighbours are not one access
};

// The names in sight. Copied where a scope opens.
struct Scope {
  std::map<std::string, Value> variables;
  std::map<std::string, Place> places;
};

class Speller {
 public:
  explicit Speller(Scalars& scalars) : scalars_(scalars) {}

  Value value(const Expr& expr, const Scope& scope);
  Value converted(const Expr& expr, DType type, const Scope& scope);
  std::string condition(const Expr& expr, const Scope& scope);  // without outer parentheses
  std::string element(const std::string& view, const Expr& offset, const Scope& scope);  // an lvalue: A[i * 4]
  Value apply(Op op, const std::vector<Value>& operands, DType type);

 private:
  Value convert(const Value& value, DType type);
  Value index(Op op, const std::vector<Value>& operands);
  Value select(const std::vector<Value>& operands, DType type);
  Value load(const Load& load, const Scope& scope);
  std::pair<Value, Value> apart(Op op, Value a, Value b);

  Scalars& scalars_;
};

const Place& place_of(const std::string& view, const Scope& scope);
std::string bare(const std::string& text);             // (a + b) ⇒ a + b
bool fits_int(const Interval& range);

}  // namespace tilec::codegen::simt
