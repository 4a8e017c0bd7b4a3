#include "autodiff/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "autodiff/graph.h"
#include "lang/messages.h"

namespace tilec::autodiff {
namespace {

using poly::Program;
using poly::TensorId;

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string suggestion(const Program& program, const std::vector<TensorId>& among, const std::string& name) {
  std::string closest, all;
  // one letter is like any other
  std::size_t best = name.size() < 3 ? 1 : std::max<std::size_t>(2, name.size() / 3) + 1;
  for (TensorId id : among) {
    const std::string candidate = without_mark(program.tensor(id).name);
    all += (all.empty() ? "`" : ", `") + candidate + "`";
    if (const std::size_t d = distance(candidate, name); d < best) best = d, closest = candidate;
  }
  return closest.empty() ? "there are " + all : "did you mean `" + closest + "`?";
}

std::optional<TensorId> named(const Program& program, const std::vector<TensorId>& among, const std::string& name) {
  for (TensorId id : among)
    if (program.tensor(id).name == name) return id;
  for (TensorId id : among)
    if (without_mark(program.tensor(id).name) == name) return id;
  return std::nullopt;
}

struct Role {                                          // what differs between the two lists of names
  const std::vector<TensorId>& among;
  const lang::Message<std::string_view, std::string_view>& unknown;
  const lang::Message<std::string_view, std::string_view>& not_float;
  const lang::Message<std::string_view>& none;
  std::string_view list;                               // as callers spell it
};

std::string title(const Program& program) {
  return program.name.empty() ? "the function" : fmt::format("`{}`", program.name);
}

std::vector<TensorId> chosen(
    const Program& program, const Role& role, const std::vector<std::string>& names, lang::Diagnostics& diagnostics) {
  std::vector<TensorId> ids;
  for (const auto& name : names) {
    const auto id = named(program, role.among, name);
    if (!id) {
      auto entry = diagnostics.report({}, role.unknown, name, title(program));
      if (!role.among.empty()) entry.hint(suggestion(program, role.among, name));
    } else if (!lang::is_float(program.tensor(*id).dtype)) {
      diagnostics.report(program.tensor(*id).span, role.not_float, name, lang::name(program.tensor(*id).dtype));
    } else if (std::find(ids.begin(), ids.end(), *id) != ids.end()) {
      diagnostics.report(program.tensor(*id).span, lang::messages::given_twice, role.list, name);
    } else {
      ids.push_back(*id);
    }
  }
  if (names.empty())
    std::copy_if(role.among.begin(), role.among.end(), std::back_inserter(ids),
        [&](TensorId id) { return lang::is_float(program.tensor(id).dtype); });
  if (names.empty() && ids.empty()) diagnostics.report({}, role.none, title(program));
  return ids;
}

}  // namespace

std::optional<Request> request(const Program& program, const std::vector<std::string>& of,
    const std::vector<std::string>& wrt, lang::Diagnostics& diagnostics) {
  using namespace lang::messages;
  const Role outputs{program.outputs, not_an_output, output_without_gradient, no_float_output, "`of`:"};
  const Role inputs{program.inputs, not_an_input, input_without_gradient, no_float_input, "`wrt`:"};
  Request request{chosen(program, outputs, of, diagnostics), chosen(program, inputs, wrt, diagnostics)};
  if (request.of.empty() || request.wrt.empty() || request.of.size() < of.size() || request.wrt.size() < wrt.size())
    return std::nullopt;
  return request;
}

std::optional<std::vector<TensorId>> inputs_to_batch(
    const Program& program, const std::vector<std::string>& names, lang::Diagnostics& diagnostics) {
  std::vector<TensorId> ids;
  bool failed = false;
  for (const std::string& name : names) {
    const auto id = named(program, program.inputs, name);
    if (!id) {
      const bool size = std::any_of(program.sizes.begin(), program.sizes.end(),
          [&](const std::string& s) { return without_mark(s) == without_mark(name); });
      auto entry = size ? diagnostics.report({}, lang::messages::batched_size, name)
                        : diagnostics.report({}, lang::messages::not_an_input, name, title(program));
      if (!size && !program.inputs.empty()) entry.hint(suggestion(program, program.inputs, name));
      failed = true;
    } else if (std::find(ids.begin(), ids.end(), *id) != ids.end()) {
      diagnostics.report(program.tensor(*id).span, lang::messages::given_twice, "batched input", name);
      failed = true;
    } else {
      ids.push_back(*id);
    }
  }
  if (names.empty()) ids = program.inputs;
  if (ids.empty() && !failed) diagnostics.report({}, lang::messages::nothing_to_batch, title(program));
  return failed || ids.empty() ? std::nullopt : std::optional(ids);
}

}  // namespace tilec::autodiff
