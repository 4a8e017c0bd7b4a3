// What a caller gives, as values: options, names, tensors and numbers. Nothing is used before it was looked at; a fault
// is an exception.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codegen/request.h"
#include "runtime/cache.h"
#include "runtime/capi/handles.h"
#include "tilec/tilec.h"

namespace tilec::capi {

std::vector<std::string> names_of(
    const char* const* list, std::size_t count, const char* function, const char* parameter);
std::string text_of(const char* text, std::size_t length, const char* function);

// Fields that the caller's struct is too old to have are absent; those that it has and we do not know must be 0.
tilec_options options_of(const tilec_options* given, const char* function);
codegen::Request request_of(const tilec_options& options, const char* function);
std::shared_ptr<const runtime::Cache> cache_of(const tilec_options& options);

enum class Side { Input, Output };

// What a call does with the tensors it is given: a GPU's have a shape here, and no elements.
enum class Reads { Elements, Shapes };

// What is wrong with a tensor before its type and its strides are looked at; empty: nothing.
std::string fault_of(const DLTensor& tensor);

// The number that a caller wrote where an enum is due, which may be none of the enum's.
template <class Enum> int number_in(const Enum& place) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &place, sizeof number);
  return number;
}

std::vector<runtime::Argument> arguments_of(const tilec_argument* given, std::size_t count,
    const tilec_program& program, Side side, const char* function, Reads reads = Reads::Elements);

// Every argument is one of the program's own names, and that once; an output that a program has twice may be given
// twice.
bool check_names(const tilec_program& program, const std::vector<runtime::Argument>& arguments, Side side,
    lang::Diagnostics& diagnostics);

}  // namespace tilec::capi
