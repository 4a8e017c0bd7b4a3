// Diagnostics as values: what was seen, where, what to type next.
#pragma once

#include <fmt/core.h>

#include <stdexcept>

#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "lang/source.h"

namespace tilec::lang {

enum class Severity { Error, Warning, Remark };

struct Label { Span span; std::string text; };

struct Diagnostic {
  std::string code;                                    // E0201, W0210, R0301
  Severity severity;
  std::string message;                                 // lower case, no full stop, code in backticks
  Span span;
  std::vector<Label> labels;                           // related places
  std::vector<std::string> hints;                      // something that can be typed in
};

// A message declared once, in messages.h, with the types of its arguments.
template <class... Arguments>
struct Message {
  std::string_view code;
  Severity severity;
  std::string_view format;
};

// The text with its arguments put in: compiled once, where what stands around it is compiled for every message.
Diagnostic formatted(
    std::string_view code, Severity severity, std::string_view format, fmt::format_args arguments, Span span = {});

class Diagnostics {
 public:
  // Returned by report() so that labels and hints can be added.
  class Entry {
   public:
    Entry(Diagnostics& all, std::size_t at) : all_(all), at_(at) {}
    Entry& label(Span span, std::string text);
    Entry& hint(std::string text);

   private:
    Diagnostics& all_;
    std::size_t at_;
  };

  template <class... Arguments>
  Entry report(Span span, const Message<Arguments...>& message, const std::type_identity_t<Arguments>&... arguments) {
    return add(formatted(message.code, message.severity, message.format, fmt::make_format_args(arguments...), span));
  }
  Entry add(Diagnostic diagnostic);                    // the same code at the same place is kept once

  bool has_errors() const;
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
  std::unordered_map<std::string, std::size_t> at_;    // by code and place
};

std::string counted(std::size_t count, const std::string& noun);  // "1 index", "3 indices"
std::string are(std::size_t count);                    // "1 is", "3 are"

// Broken invariant: our bug. Caught only in the C API and cli/main.cpp.
struct InternalError : std::runtime_error { using std::runtime_error::runtime_error; };

}  // namespace tilec::lang
