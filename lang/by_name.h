// What std/ is searched by, and what a call by name has to say: `std:mm` of the command line, `tilec.std.mm` of Python.
//
//   [[also("mm, bmm")]] function matmul(…)                                   `std:mm` is it
//   [[layout("channels_last, channels_first=conv2d_nchw")]] function conv2d(…)
//     `std:conv2d --define layout=channels_first` is `std:conv2d_nchw`
//   [[ask("dim")]] function cumsum<dim=-1>(X[A..., N, C...])
//     NumPy's cumsum(X) goes over all elements: of a tensor of several dimensions a call by name says `dim`
#pragma once

#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

struct Layout { std::string name, function; };         // the first is that of the function itself
std::vector<Layout> layouts_of(const Function& function);  // empty: nothing of it depends on an order of dimensions
std::vector<std::string> asked_of(const Function& function);  // parameters and inputs
// "`conv2d` reads channels_last …": a hint for arguments that do not fit; empty where there is one order alone.
std::string layout_hint(const Function& function);
void check_by_name(const Function& function, Diagnostics& diagnostics);

}  // namespace tilec::lang
