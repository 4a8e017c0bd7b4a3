// How a program is called in words: which of NAME=VALUE are inputs, and which say where outputs go.
//
//   X=random:2x3 N=3 Y=out.npy      ⇒   inputs {X: a 2 by 3 tensor, N: 3}, outputs {Y: "out.npy"}
//   with --grad: dY=ones:2x3 dX=…   ⇒   dY is an input of the gradient, dX an output; with --forward tX and tY
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "runtime/specialise.h"

namespace tilec::cli {

struct Word { std::string name, value; lang::Span span = {}; };  // span: where a case of a file says it
struct Call { std::vector<runtime::Argument> inputs; std::vector<Word> outputs; };

// parse_argument, whose faults point at the word
runtime::Argument argument_of(const Word& word, std::optional<lang::DType> declared, const Reading& reading);
bool contains(const std::vector<std::string>& names, const std::string& name);

// Of a derivative without --of or --wrt: with --grad, `dO=…` of an output says what to start from, with --forward
// `tX=…` of an input what to move; `dX=…` and `tO=…` of the last derivative say what is wanted.
void infer_derivatives(
    const runtime::Callable& callable, const std::vector<Word>& words, std::vector<codegen::Derivative>& derivatives);

// nullopt: the program does not compile with these inputs, the errors are in `diagnostics`. Throws RuntimeError for a
// word that is neither, or a value that cannot be read.
std::optional<Call> read_call(const runtime::Callable& callable, const std::vector<Word>& words, const Reading& reading,
    lang::Diagnostics& diagnostics);

// Of a call that does not compile because an operand holds floats where integers are wanted: how the word of the input
// that the fault is about says integers. A word without a type is f32.
lang::Diagnostics with_integers_said(
    const lang::Diagnostics& diagnostics, const std::vector<Word>& words, const std::vector<lang::Source>& sources);

// Inputs without a value whose shape the others and the sizes tell are random ones.
Call with_random_inputs(const runtime::Callable& callable, Call call, std::uint64_t seed);

struct Options;
struct Session;
// A program whose text is read and its arguments, as the options' words say, and then what the command does with them.
// `shows_stages`: of a program that was compiled before, there are none.
int call_program(const Options& options, const std::string& text, bool shows_stages,
    const std::function<int(Session&, const runtime::Callable&, const Call&)>& work);

}  // namespace tilec::cli
