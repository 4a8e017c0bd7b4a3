#include "cli/roof.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lang/check.h"
#include "lang/parse.h"
#include "poly/count.h"
#include "runtime/samples.h"
#include "runtime/specialise.h"

namespace tilec::cli {

namespace {

using runtime::Tensor;

// Of one program of our own, whose inputs are ones.
double best_seconds(
    const char* text, const codegen::Request& like, const std::vector<std::vector<std::int64_t>>& shapes) {
  lang::Diagnostics diagnostics;
  std::optional<lang::File> file = lang::parse({"rate", text}, diagnostics);
  if (!file || !lang::check(*file, diagnostics))
    throw lang::InternalError("a program that measures the machine is wrong");
  codegen::Request request;
  request.target = like.target;
  request.threads_hint = like.threads_hint;
  const runtime::Callable callable({{"rate", text}}, std::move(*file), request);
  std::vector<runtime::Argument> arguments;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    Tensor tensor = runtime::allocate(callable.input_names()[k], lang::DType::F32, shapes[k]);
    std::fill_n(static_cast<float*>(tensor.data), tensor.count(), 1.0F);
    arguments.push_back({.name = callable.input_names()[k], .tensor = tensor});
  }
  const auto made = callable.specialise(arguments, {}, diagnostics);
  if (!made) throw lang::InternalError("a program that measures the machine does not compile");
  const std::vector<Tensor> out = runtime::allocate_outputs(*made->module);
  double best = 1e9;
  for (int k = 0; k < 8; ++k)
    best = std::min(best,
        runtime::seconds_of([&] { runtime::run(*made->module, runtime::bind_inputs(*made->module, arguments), out); }));
  return best;
}

}  // namespace

Rates rates_of(const codegen::Request& like) {
  if (like.target.family != codegen::Target::Family::Cpu) return {};
  constexpr std::int64_t side = 768, elements = 32 << 20;
  return {2.0 * side * side * side /
          best_seconds("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }", like,
              {{side, side}, {side, side}}),
      4.0 * elements /
          best_seconds("function (X[M, N]) -> (S) { S[j: N] = +(X[i, j]); }", like, {{elements / 4096, 4096}})};
}

double bytes_of(const runtime::Module& module) {
  double sum = 0;
  for (const auto* ports : {&module.inputs, &module.outputs})
    for (const runtime::Port& port : *ports)
      sum += static_cast<double>(runtime::byte_count(port.name, port.dtype, port.shape));
  return sum;
}

double least_seconds(double operations, double bytes, const Rates& rates) {
  return rates.operations > 0 ? std::max(operations / rates.operations, bytes / rates.bytes) : 0;
}

}  // namespace tilec::cli
