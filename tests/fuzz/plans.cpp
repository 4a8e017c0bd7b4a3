// Any bytes as a plan, over a program with a product, a window, an epilogue and a chain of residue classes: read or
// refused with a message; what was read prints and reads back as itself.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "codegen/fuse.h"
#include "codegen/pipeline.h"
#include "lang/check.h"
#include "lang/parse.h"

using namespace tilec;

namespace {

constexpr const char* text = R"(function f(A[8, 12], B[12, 9], C[9], S[31]) -> (Y, Z, V) {
  P[i, j: 8, 9] = +(A[i, k] * B[k, j]);
  Y = relu(P + C);
  Z[i: 9] = +(S[2*i + k] * C[k]);
  V[2*x + 3*k: 40] = +(S[x] * C[k]);
}
)";

codegen::Stages compile() {
  lang::Diagnostics diagnostics;
  const std::optional<lang::File> file = lang::parse({"plan.tile", text}, diagnostics);
  if (!file || !lang::check(*file, diagnostics)) std::abort();
  codegen::Request request;
  request.target = *codegen::target_named("cpu:x86-64-v3");
  std::optional<codegen::Stages> stages = codegen::compile(*file, request, codegen::Until::Plan, diagnostics);
  if (!stages) std::abort();
  return std::move(*stages);
}

const codegen::Plan& plan() {
  static const codegen::Stages stages = compile();
  return *stages.plan;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string message;
  const std::string given(reinterpret_cast<const char*>(data), size);
  const auto groups = codegen::parse_groups(given, plan().program, message);
  if (!groups) {
    if (message.empty()) std::fprintf(stderr, "FUZZ: refused without a message\n"), std::abort();
    return 0;
  }
  codegen::Plan changed = plan();
  changed.groups = *groups;
  const std::string printed = codegen::print(changed);
  const auto again = codegen::parse_groups(printed, plan().program, message);
  if (!again || *again != *groups)
    std::fprintf(stderr, "FUZZ: does not read back: %s\n%s", message.c_str(), printed.c_str()), std::abort();
  return 0;
}

// `plans --print-plan`: the first entry of the corpus.
extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  if (*count < 2 || std::string((*words)[1]) != "--print-plan") return 0;
  std::fputs(codegen::print(plan()).c_str(), stdout);
  std::exit(0);
}
