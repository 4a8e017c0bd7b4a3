// The header beside what was compiled ahead of time: C11 and C++, a comment for everything that its caller must know.
//
//   int conv(const float* in_I, const float* in_K, float* out_O, void* workspace);
//   int conv(const float* in_I, const float* in_K, float* out_O, void* workspace, void* stream);      on a GPU
//
// Parameters are `in_` and `out_` and the tensor's name: no keyword and no macro (`I` is one) is called so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/package.h"

namespace tilec::runtime {

// One function.
struct Prototype {
  std::string name, what;                              // `what`: a sentence, or nothing
  std::vector<codegen::Port> inputs, outputs;
  std::vector<bool> read;                              // of inputs
  std::int64_t kept = 0;                               // outputs, the last ones, that another function takes
  std::int64_t workspace = 0;                          // bytes
  bool grows = false;                                  // some of these belong to workers
  bool on_gpu = false;                                 // tensors and workspace are, and it takes a stream
  std::vector<std::string> faults;                     // what each status from 16 on says
};

struct Header {
  std::string name;                                    // of the program, a C identifier
  std::string compiler, target;
  std::string needs;                                   // what its CPU must have
  std::string libraries;                               // what it calls
  std::vector<Prototype> functions;
  std::int64_t workers = 1;                            // 1: there is no `tilec_parallel_for`
  bool chooses_cpu = false;                            // status 3 may be returned
};
std::string c_header(const Header& header);

std::vector<std::string> parameters_of(const Prototype& f);  // names of the tensors, in order
std::string declaration(const Prototype& f);           // `int conv(const float* in_I, …, void* workspace)`

std::string c_identifier(std::string_view text);       // `my-conv.2` ⇒ `my_conv_2`
std::string why_no_c_name(const std::string& name);    // of a function; empty: it is one
std::string workspace_macro(const std::string& name);  // `CONV_WORKSPACE`

}  // namespace tilec::runtime
