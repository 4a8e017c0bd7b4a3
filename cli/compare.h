// Two independent opinions on a result: the interpreter, and (of a derivative) finite differences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/interpret.h"
#include "poly/sample.h"
#include "runtime/specialise.h"

namespace tilec::cli {

// One tensor against what it should be.
struct Comparison {
  std::string name, with;                              // `Y`; `the interpreter`,
                                                       // `finite differences along 6 directions`
  std::string measure = "error";                       // what `error` is called
  bool bad = false;
  double error = 0, allowed = 0;                       // of the element, or direction, whose error is the largest part
                                                       // of what it may be
  std::string at = {};                                 // that element: `[1, 2]`
  double part = -1;                                    // error / allowed; below 0: nothing has been compared
  std::string extent = {};                             // of how many elements, where not all
  std::string skipped = {};                            // why nothing was compared, if so; then `bad`
  std::size_t open = 0;                                // elements that differ, by less than they may, and may by more
                                                       // than the largest value: that they agree says nothing
  std::string undecided = {};                          // the first element that is infinite or NaN where the definition
                                                       // allows that and a number too
};
std::string describe(const Comparison& one);           // a line without its end

// Element by element, each with what it may be off by; integers and booleans exactly where that is 0.
Comparison compare(std::string name, const poly::Array& got, const poly::Array& wanted,
    const std::vector<double>& allowed, const poly::Needed& which = {true, {}});
// How far a computed float may be from the interpreter's: 8·eps(T)·Σ|terms|. Of other types: the error itself.
std::vector<double> allowed_errors(lang::DType type, const std::vector<double>& magnitudes);

// How far element n is from what is wanted; none when both are the same, NaN included. NaN, which no error allows,
// between the two infinities: they tell 1/0.0 from 1/-0.0. Zeros themselves are equal.
std::optional<double> off_by(const poly::Array& got, const poly::Array& wanted, std::size_t n);
std::string element_name(const std::vector<std::int64_t>& shape, std::size_t n);  // `[1, 2]`; nothing for a scalar

// One per output: all elements, or as many as the effort allows; none where a single one takes several times that.
std::vector<Comparison> compare_with_interpreter(const runtime::Specialisation& made,
    const std::vector<runtime::Tensor>& inputs, const std::vector<runtime::Tensor>& outputs,
    const std::optional<poly::Effort>& effort = {}, const poly::Progress& progress = {});

// Compares the callable's last derivative (`otherwise`, if it has none) with finite differences, in f64, of what it is
// the derivative of.
// Reverse: (L(x + h·v) - L(x - h·v)) / 2h with L(x) = Σ dO·O(x), along random directions v of each input; one per
//          input.
// Forward: (O(x + h·tX) - O(x - h·tX)) / 2h, in random weighted sums of each output; one per output.
// Cotangents and tangents that are not given are random. nullopt: the errors are in `diagnostics`.
// Along six directions each, or two where these take long.
std::optional<std::vector<Comparison>> compare_with_differences(const runtime::Callable& callable,
    const codegen::Derivative& otherwise, const std::vector<runtime::Argument>& arguments,
    lang::Diagnostics& diagnostics, const poly::Progress& progress = {});

// A copy of the text's tree in which every float that is declared is an f64: differences of f32 are mostly noise. So of
// values.
lang::File in_double(lang::File file);
std::vector<runtime::Argument> in_double(std::vector<runtime::Argument> arguments);

}  // namespace tilec::cli
