#include "cli/lsp/described.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lang/print.h"

namespace tilec::cli::lsp {

std::string_view written(const lang::Source& source, lang::Span span) {
  const std::string_view text = source.text;
  return span.begin > text.size() ? std::string_view()
                                  : text.substr(span.begin, span.end - std::min(span.begin, span.end));
}

namespace {

std::string shape_text(const std::vector<poly::Size>& shape) {
  std::vector<std::string> sizes;
  for (const poly::Size& size : shape) sizes.push_back(size.print());
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

}  // namespace

std::optional<std::string> built_tensor(const poly::Program& program, const lang::Name& name) {
  const auto at =
      std::ranges::find_if(program.tensors, [&](const poly::Tensor& tensor) { return tensor.name == name.spelled(); });
  if (at == program.tensors.end()) return std::nullopt;
  return fmt::format("{} {}{}", lang::name(at->dtype), at->name, shape_text(at->shape));
}

const lang::Input* input_named(const lang::Function& function, const lang::Name& name) {
  const auto at =
      std::ranges::find_if(function.inputs, [&](const lang::Input& input) { return input.target.name == name; });
  return at == function.inputs.end() ? nullptr : &*at;
}

std::string default_text(const lang::Input& input) { return input.value ? "=" + lang::print(*input.value) : ""; }

std::string input_text(const lang::Input& input) {
  std::vector<std::string> sizes;
  for (const lang::Expr& size : input.sizes.value_or(std::vector<lang::Expr>{})) sizes.push_back(lang::print(size));
  return fmt::format("{}{}{}{}", input.target.dtype ? input.target.dtype->text + " " : "", input.target.name.spelled(),
      input.sizes ? fmt::format("[{}]", fmt::join(sizes, ", ")) : "", default_text(input));
}

const lang::Source* source_of(const Document& document, const lang::Function& function) {
  const std::uint32_t number = function.span.source;
  return number < document.tree_sources().size() ? &document.tree_sources()[number] : nullptr;
}

}  // namespace tilec::cli::lsp
