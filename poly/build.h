// Gives the text its meaning: ranks, types, broadcasting and domains are fixed here; sizes may stay names.
//
//   Y = A + B;   with A[M, N], B[N]      ⇒   Y[i, j: M, N] = =(A[i, j] + B[j]);
//
// In:  a checked File and how it is called.   Out: a Program for which verify() holds.
// Keeps: statement order, names, spans.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::poly {

// How one input is called. What is absent comes from the text: f32, the rank its brackets show, the declared names.
struct Given {
  std::string name;                                    // the declared name, without mark
  std::optional<DType> dtype = std::nullopt;
  std::optional<std::vector<Size>> shape = std::nullopt;  // integers when running; {} for a scalar
  std::optional<std::int64_t> integer = std::nullopt;  // a scalar's value, where it may be used as a size
                                                       // (`function f(A, S)` with S = 2)
  bool weak = false;                                   // a Python number or `S=0.5`: weakly typed
};
// `--define S=2`, `--define F=relu`.
struct Define { std::string name; std::variant<double, std::string> value; };
struct Signature {
  std::optional<std::string> function;                 // else the unnamed function, else the only one
  std::vector<Given> inputs;                           // in any order
  std::vector<Define> defines;                         // compile-time parameters; others have their defaults
  std::map<std::string, std::int64_t> ranks = {};      // `--rank B=2`: dimensions of packs, where the inputs do not
                                                       // tell them
  std::vector<std::string> omitted = {};               // inputs that are not given: each is its default. Without mark
};

// `C`, `C_1` for `-> (C, C)`, and `A_1` for `(A) -> (A)`, where nothing else is called so: the names of a function's
// outputs, with their marks. No two are the same, and none is an input's.
std::vector<std::string> result_names(const lang::Function& function);

// What `iterate<f, T>(X)` reports where only the shapes of inputs tell T, and none is given: no fault of the text.
bool waits_for_shapes(const lang::Diagnostic& diagnostic);

std::optional<Program> build(const lang::File& file, const Signature& signature, lang::Diagnostics& diagnostics);

}  // namespace tilec::poly
