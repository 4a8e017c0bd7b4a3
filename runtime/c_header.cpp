#include "runtime/c_header.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace tilec::runtime {

namespace {

using codegen::Port;
using lang::DType;

struct CType { const char* name; const char* note; };

CType c_type(DType type) {
  switch (type) {
    case DType::Bool: return {"uint8_t", ", each 0 or 1"};
    case DType::U8: return {"uint8_t", ""};
    case DType::U16: return {"uint16_t", ""};
    case DType::U32: return {"uint32_t", ""};
    case DType::U64: return {"uint64_t", ""};
    case DType::I8: return {"int8_t", ""};
    case DType::I16: return {"int16_t", ""};
    case DType::I32: return {"int32_t", ""};
    case DType::I64: return {"int64_t", ""};
    case DType::F16: return {"uint16_t", ", the bits of IEEE 754 binary16"};
    case DType::BF16: return {"uint16_t", ", the upper bits of a float"};
    case DType::F32: return {"float", ""};
    case DType::F64: return {"double", ""};
  }
  return {"void", ""};
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string shape_of(const Port& port) {
  if (port.shape.empty()) return ", one element";
  return fmt::format("[{}], strides {}", fmt::join(port.shape, ", "), fmt::join(port.strides, ", "));
}

std::string print(const Prototype& f) {
  const std::vector<std::string> names = parameters_of(f);
  std::string comment = f.what.empty() ? "" : f.what + "\n";
  const auto line = [&](std::size_t at, const Port& port, const std::string& more) {
    const CType type = c_type(port.dtype);
    comment += fmt::format(
        "{:<12} {} {}{}{}{}\n", names[at], lang::name(port.dtype), type.name, shape_of(port), type.note, more);
  };
  for (std::size_t k = 0; k < f.inputs.size(); ++k)
    line(k, f.inputs[k], f.read[k] ? "" : "; is not read, and may be NULL");
  const std::size_t shown = f.outputs.size() - static_cast<std::size_t>(f.kept);
  for (std::size_t k = 0; k < f.outputs.size(); ++k)
    line(f.inputs.size() + k, f.outputs[k], k < shown ? "" : "; is kept for backward");
  comment +=
      fmt::format("workspace    {} bytes{}", f.workspace, f.workspace == 0 ? ": may be NULL" : ", aligned to 64");
  for (std::size_t k = 0; k < f.faults.size(); ++k)
    comment += fmt::format("\nreturns {}{:<2} {}", k == 0 ? "  " : "  ", 16 + k, f.faults[k]);
  std::string text = "/* ";
  for (const char c : comment) text += c == '\n' ? std::string("\n   ") : std::string(1, c);
  text += " */\n";
  text += fmt::format("#define {} {}\n", workspace_macro(f.name), f.workspace);
  text += fmt::format("size_t {}_workspace(void);\n", f.name);
  if (f.on_gpu) text += fmt::format("int {}_load(void);\n", f.name);
  return text + declaration(f) + ";\n";
}

constexpr const char* conventions = R"(
 * Tensors lie as the comments say: strides are in elements, of 1, 2, 4 or 8 bytes, and each tensor is aligned to its element. A tensor without
 * elements may be NULL. No output shares memory with another tensor of its call. `workspace` is as many bytes as its macro says, aligned to
 * 64, and overlaps no tensor; what it holds before and after a call means nothing. A call allocates nothing and keeps nothing: calls may run
 * at one time, each with a workspace of its own. It returns
 *    0  all outputs are written
 *    1  `workspace` is NULL, or not aligned to 64; nothing is written
 *    2  a tensor is NULL, or not aligned to its element; nothing is written
)";

constexpr const char* gpu_conventions = R"(
 * Tensors lie row-major in the memory of a GPU: pointers are its addresses (CUdeviceptr), aligned to 16. A tensor without elements may be NULL. No
 * output shares memory with another tensor of its call. `workspace` is as many bytes there as its macro says, aligned to 64, and overlaps no
 * tensor; what it holds before and after a call means nothing. A call starts kernels on `stream` (a CUstream or cudaStream_t; NULL: the default
 * one) in the context that is current in its thread, and waits for none of them. Calls may run at one time, each with a workspace of its own. The
 * first one in a context loads code, as `_load` does by itself: what is captured in a graph has to come behind it. Both return
 *    0  all kernels are started
 *    1  `workspace` is NULL, or not aligned to 64; nothing is started
 *    2  a tensor is NULL, or not aligned to 16; nothing is started
 *    3  the GPU or its driver runs none of the code; nothing is started
 *    4  there is no libcuda.so.1 that could be opened: the driver of the GPU; nothing is started
 *    5  no context is current in this thread; nothing is started
 * 1000  or more: what the driver said, a CUresult, and 1000; outputs mean nothing
)";

constexpr const char* parallel_for = R"(
/* How turns are shared out. A call asks for `turn(arguments, i, worker)` once for every 0 <= i < count, in any order and on any threads, and
   that all are done when this returns. Turns that run at one time have different workers, 0 <= worker < workers; `workers` is at most
   `count`{}. The object has a weak definition that runs all turns in the calling
   thread, as worker 0: a program that has a thread pool defines this function itself. */
void tilec_parallel_for(int64_t count, int64_t workers, void (*turn)(void* arguments, int64_t i, int64_t worker), void* arguments);
)";

constexpr const char* keywords[] = {
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "main",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
};

// A function of that name would take the place of the C library's, for all who call it, the machine code here too.
bool is_of_c_library(const std::string& name) {
  void* const libm = dlopen("libm.so.6", RTLD_NOW);
  if (!libm) return false;
  const bool found = dlsym(libm, name.c_str()) != nullptr;  // there, or in libc, which it needs
  dlclose(libm);
  return found;
}

}  // namespace

// Names that differ, whatever was written in place of characters that C does not have.
std::vector<std::string> parameters_of(const Prototype& f) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  const auto add = [&](const char* role, const Port& port) {
    std::string name = role + c_identifier(port.name);
    while (!taken.insert(name).second) name += "_";
    names.push_back(name);
  };
  for (const Port& port : f.inputs) add("in_", port);
  for (const Port& port : f.outputs) add("out_", port);
  return names;
}

std::string declaration(const Prototype& f) {
  const std::vector<std::string> names = parameters_of(f);
  std::string text = fmt::format("int {}(", f.name);
  for (std::size_t k = 0; k < names.size(); ++k) {
    const bool is_input = k < f.inputs.size();
    text += fmt::format("{}{}* {}, ", is_input ? "const " : "",
        c_type((is_input ? f.inputs[k] : f.outputs[k - f.inputs.size()]).dtype).name, names[k]);
  }
  return text + (f.on_gpu ? "void* workspace, void* stream)" : "void* workspace)");
}

std::string c_identifier(std::string_view text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 128 ? c : '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 ? "_" + name : name;
}

std::string why_no_c_name(const std::string& name) {
  if (name != c_identifier(name)) return "is no identifier of C";
  if (std::ranges::count(keywords, name) > 0) return "is a word of C or C++";
  if (name.starts_with("tilec_")) return "begins as tilec's own names do";
  return is_of_c_library(name) ? "is a function of C's library" : "";
}

std::string workspace_macro(const std::string& name) { return upper(name) + "_WORKSPACE"; }

std::string c_header(const Header& header) {
  const std::string guard = fmt::format("TILEC_{}_H", upper(header.name));
  std::string text =
      fmt::format("/* {}, compiled by tilec {} for {}.\n *\n * Machine code for {}.\n * It calls {}.\n *", header.name,
          header.compiler, header.target, header.needs, header.libraries);
  text += std::ranges::any_of(header.functions, &Prototype::on_gpu) ? gpu_conventions : conventions;
  if (header.chooses_cpu) text += " *    3  this CPU runs none of the machine code; nothing is written\n";
  if (std::ranges::any_of(header.functions, [](const Prototype& f) { return !f.faults.empty(); }))
    text +=
        " *   16  or more: an index is out of range, see below; outputs are written as if it were the nearest one in range\n";
  text += fmt::format(
      " */\n#ifndef {}\n#define {}\n\n#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n",
      guard, guard);
  if (header.workers > 1) {
    const bool grows = std::ranges::any_of(header.functions, &Prototype::grows);
    text += fmt::format(fmt::runtime(parallel_for),
        grows ? fmt::format(", and at most {} where they have memory of their own in the workspace", header.workers)
              : "");
  }
  for (const Prototype& f : header.functions) text += "\n" + print(f);
  return text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

}  // namespace tilec::runtime
