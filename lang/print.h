// Writes a program: tree ⇒ canonical text, as `tilec fmt` shows it.
//
//   function f(A[N])->(B){B=relu(A);}   ⇒   function f(A[N]) -> (B) {
//                                             B = relu(A);
//                                           }
//
// In:  a File.   Out: text with parse(print(f)) == f and print(parse(print(f))) == print(f).
// Keeps: comments, marks of names, the form of numbers; parentheses only where the grammar needs them (and around
//        nested `?:`).
#pragma once

#include <string>

#include "lang/ast.h"

namespace tilec::lang {

std::string print(const File& file);
std::string print(const Function& function);
std::string heading(const Function& function);         // without attributes and `{`
std::string print(const Statement& statement);
std::string print(const Expr& expression);
std::string print(const Argument& value);               // with its label, where it has one

// The tree itself, a node a line, for `--emit=ast`.
std::string dump(const File& file);

}  // namespace tilec::lang
