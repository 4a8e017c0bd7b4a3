// A program on a simulated GPU beside the interpreter.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "poly/interpret.h"
#include "runtime/assemble.h"
#include "runtime/module.h"
#include "tests/backends/case.h"
#include "tests/backends/programs.h"
#include "tests/codegen/compiled.h"

namespace tilec::test {

// On random inputs, as the interpreter has it.
inline void check_run(
    const codegen::Stages& stages, const codegen::Request& request, backends::Random& random, bool finite = true) {
  const auto module = runtime::load_device(runtime::assemble(*stages.lowered, request));
  const poly::Program& program = *stages.bounded;
  std::vector<poly::Array> inputs;
  std::vector<runtime::Tensor> in;
  std::vector<void*> from;
  for (const poly::TensorId id : program.inputs) {
    backends::Shape shape;
    for (const poly::Size& size : program.tensor(id).shape) shape.push_back(size.get());
    inputs.push_back(backends::random_array(random, program.tensor(id).dtype, shape, finite));
    in.push_back(runtime::allocate("input", inputs.back().dtype, inputs.back().shape));
    runtime::from_array(inputs.back(), in.back());
    from.push_back(in.back().data);
  }
  const poly::Interpretation right = poly::interpret(program, inputs);
  const runtime::Tensor out = runtime::allocate("output", right.outputs[0].dtype, right.outputs[0].shape);
  void* to[] = {out.data};
  module->run(from.data(), to);
  CHECK(backends::compare(runtime::to_array(out), right.outputs[0], right.magnitudes[0]) == "");
}

}  // namespace tilec::test
