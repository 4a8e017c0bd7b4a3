#include "codegen/target_words.h"

#include <fmt/format.h>

#include <charconv>

namespace tilec::codegen {

namespace {

std::optional<std::size_t> number_of(std::string_view word) {
  std::size_t number = 0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (fault != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

constexpr std::string_view of_math = "math=";
struct NamedMath { std::string_view name; Math math; };
constexpr NamedMath maths[] = {{"tf32", Math::Tf32}, {"bf16", Math::Bf16}};

std::optional<Math> math_of(std::string_view word) {
  for (const NamedMath& m : maths)
    if (word.starts_with(of_math) && word.substr(of_math.size()) == m.name) return m.math;
  return std::nullopt;
}

std::string math_word(Math math) {
  for (const NamedMath& m : maths)
    if (m.math == math) return fmt::format(":{}{}", of_math, m.name);
  return {};
}

}  // namespace

std::optional<TargetWords> target_words(std::string_view name) {
  const std::size_t colon = name.find(':');
  TargetWords words{name.substr(0, colon), {}, std::nullopt, Math::F32};
  if (colon == std::string_view::npos) return words;
  std::string_view rest = name.substr(colon + 1);
  if (rest.empty()) return std::nullopt;
  const bool is_cuda = words.kind == "cuda";
  if (!is_cuda && words.kind != "opencl") {
    words.arch = rest;
    return words;
  }
  enum { Device, Arch, Rounding, Over } next = Device;  // in this order, each there or not
  for (bool more = true; more;) {
    const std::size_t end = rest.find(':');
    const std::string_view word = rest.substr(0, end);
    more = end != std::string_view::npos;
    rest = more ? rest.substr(end + 1) : std::string_view();
    if (const std::optional<std::size_t> number = number_of(word); number && next == Device)
      words.device = number, next = Arch;
    else if (is_cuda && word.starts_with("sm_") && next <= Arch) words.arch = word, next = Rounding;
    else if (const auto math = math_of(word); math && is_cuda && next <= Rounding) words.math = *math, next = Over;
    else return std::nullopt;
  }
  return words;
}

std::string with_device(const TargetWords& words, std::size_t device) {
  return fmt::format(
      "{}:{}{}{}{}", words.kind, device, words.arch.empty() ? "" : ":", words.arch, math_word(words.math));
}

std::string_view without_math(std::string_view name) {
  const std::size_t last = name.rfind(':');
  return last != std::string_view::npos && math_of(name.substr(last + 1)) ? name.substr(0, last) : name;
}

}  // namespace tilec::codegen
