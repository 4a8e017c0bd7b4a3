#include "poly/inlining.h"

#include <utility>

#include "lang/limit.h"

namespace tilec::poly {

Inlining::Inlining(Scope& caller, const lang::Definition& callee, Span span)
    : caller_(caller),
      span_(span),
      inside_{.diagnostics = found_,
          .program = std::move(caller.program),
          .file = callee.file,
          .assumed = caller.assumed,
          .derivations = caller.derivations,
          .inlined = caller.inlined,
          .texts = caller.texts,
          .nested = caller.nested,
          .depth = caller.depth + 1} {}

Inlining::~Inlining() {
  caller_.program = std::move(inside_.program);
  for (auto diagnostic : found_.all()) {
    diagnostic.labels.push_back({span_, "in this call"});
    caller_.diagnostics.add(std::move(diagnostic));
  }
}

bool too_many(Scope& scope, Span span) {
  auto& all = *scope.inlined;
  if (all.over) return true;
  all.over = !lang::within(lang::Limit::Nesting, scope.depth + scope.nested + 1, span, scope.diagnostics) ||
      !lang::within(lang::Limit::Calls, ++all.count, span, scope.diagnostics);
  return all.over;
}

}  // namespace tilec::poly
