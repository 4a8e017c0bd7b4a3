// Compile-time parameters that are one of several names, and the tests of them in a text.
//
//   function edge<mode={zeros, ends}>(X[N]) -> (Y) { Y = mode == ends ? clamped(X) : padded(X); }
//     with mode=ends  ⇒  Y = clamped(X);
//
// The names mean something beside `==` and `!=` of their parameter only, so an index or a tensor may be called like one
// of them. A `?:` whose condition consists of tests picks: the other part is not compiled.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/ast.h"

namespace tilec::lang {

// What a parameter of the function may be; its own names, or those of an earlier one that is its default
// (`mode_x=mode`). Empty: no such parameter.
const std::vector<Name>& choices_of(const Function& function, const Name& parameter);
std::string listed(const std::vector<Name>& choices);  // "`zeros` and `ends`"
// which of them; 1 is `true` and 0 `false`, as `--define` and Python give them
std::optional<Name> choice_given(const std::vector<Name>& choices, const Argument& value);

// `parameter == other`, `parameter != other`.
struct ChoiceTest { const Name* parameter; const Expr* other; };
std::optional<ChoiceTest> choice_test(const Function& function, const Expr& expr);

// The function for these names, by the parameter as spelled; nothing where it has no such parameter.
using Chosen = std::map<std::string, Name>;
std::optional<Function> with_choices(const Function& function, const Chosen& chosen);
Chosen first_choices(const Function& function);        // what each is where nothing is given

}  // namespace tilec::lang
