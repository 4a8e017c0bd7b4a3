// The scope of a callee while it is inlined: its own names, the caller's Program. What it reports is told at the call
// as well.
//
//   Y = f(A);   ⇒   error in f: `T` …        label: in this call
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

class Inlining {
 public:
  Inlining(Scope& caller, const lang::Definition& callee, Span span);
  Inlining(const Inlining&) = delete;
  Inlining& operator=(const Inlining&) = delete;
  ~Inlining();                                         // gives the Program back
  Scope& scope() { return inside_; }

 private:
  Scope& caller_;
  Span span_;
  lang::Diagnostics found_;
  Scope inside_;
};

// Recursion through compile-time parameters ends here too. Once a limit is reported, nothing more is inlined.
bool too_many(Scope& scope, Span span);

}  // namespace tilec::poly
