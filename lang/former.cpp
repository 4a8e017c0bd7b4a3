#include "lang/former.h"

#include <algorithm>

#include "lang/messages.h"
#include "lang/print.h"

namespace tilec::lang {
namespace {

constexpr std::string_view attribute = "formerly", blanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(blanks);
  return from == std::string_view::npos ? std::string_view()
                                        : text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

bool is_name(std::string_view text) {
  const auto belongs = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !text.empty() && (text.front() < '0' || text.front() > '9') && std::all_of(text.begin(), text.end(), belongs);
}

// The pairs of one string; what is no pair has no names.
std::vector<Former> pairs(std::string_view text, Span span) {
  std::vector<Former> found;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string_view pair = text.substr(from, comma - from);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view former = trimmed(pair.substr(0, equals)),
                           now = trimmed(pair.substr(std::min(equals + 1, pair.size())));
    found.push_back(
        is_name(former) && is_name(now) ? Former{std::string(former), std::string(now), span} : Former{"", "", span});
    from = comma + 1;
  }
  return found;
}

const Parameter* own_parameter(const Function& function, std::string_view spelled) {
  const auto at = std::find_if(function.parameters.begin(), function.parameters.end(),
      [&](const Parameter& p) { return p.name.text == spelled || p.name.spelled() == spelled; });
  return at == function.parameters.end() ? nullptr : &*at;
}

bool is_input(const Function& function, std::string_view spelled) {
  return std::any_of(function.inputs.begin(), function.inputs.end(),
      [&](const Input& input) { return input.target.name.text == spelled; });
}

const Attribute* deprecated(const Function& function) {
  const auto at = std::find_if(function.attributes.begin(), function.attributes.end(),
      [](const Attribute& word) { return word.name.text == "deprecated"; });
  return at == function.attributes.end() ? nullptr : &*at;
}

// The one call that a body is, as text; else nothing.
std::string call_of(const Function& function) {
  if (function.statements.size() != 1) return {};
  const auto& node = function.statements.front().node;
  const Expr* value = nullptr;
  if (const auto* one = std::get_if<Assignment>(&node)) value = &one->value;
  if (const auto* several = std::get_if<TupleAssignment>(&node)) value = &several->value;
  return value && value->as<Call>() ? print(*value) : std::string();
}

}  // namespace

std::optional<std::string> instead_of(const Function& function) {
  const Attribute* word = deprecated(function);
  if (!word) return std::nullopt;
  const auto* text = word->values.empty() ? nullptr : std::get_if<std::string>(&word->values[0].value);
  return text ? *text : call_of(function);
}

void check_deprecated(const Function& function, Diagnostics& diagnostics) {
  const Attribute* word = deprecated(function);
  if (!word) return;
  const bool said = word->values.size() == 1 && !instead_of(function).value_or("").empty() &&
      std::holds_alternative<std::string>(word->values[0].value);
  if (said || (word->values.empty() && !call_of(function).empty())) return;
  diagnostics
      .report(word->name.span, messages::attribute_values, "deprecated",
          "takes a string, which says what to write instead; nothing where the body is one call")
      .hint("write `[[deprecated(\"softmax(X)\")]]`");
}

void warn_of_deprecated(const Function& function, Span span, Diagnostics& diagnostics) {
  const auto instead = instead_of(function);
  if (instead)
    diagnostics.report(
        span, messages::deprecated_function, function.name ? function.name->spelled() : "function", *instead);
}

std::vector<Former> former_names(const Function& function, Diagnostics& diagnostics) {
  std::vector<Former> names;
  const Attribute* before = nullptr;
  for (const Attribute& word : function.attributes) {
    if (word.name.text != attribute) continue;
    const auto wrong = [&](Span span, const std::string& why) {
      return diagnostics.report(span, messages::attribute_values, attribute, why);
    };
    if (before != nullptr) wrong(word.name.span, "is given twice").label(before->name.span, "and here");
    before = &word;
    std::vector<Former> said;
    for (const Value& value : word.values) {
      const auto* text = std::get_if<std::string>(&value.value);
      const auto more = text ? pairs(*text, value.span) : std::vector<Former>{{"", "", value.span}};
      said.insert(said.end(), more.begin(), more.end());
    }
    if (said.empty()) said.push_back({"", "", word.name.span});
    for (Former& each : said) {
      const auto known =
          std::find_if(names.begin(), names.end(), [&](const Former& other) { return other.former == each.former; });
      if (each.former.empty())
        wrong(each.span, "takes a string of former names and the parameters' names of today")
            .hint("write `[[formerly(\"S=stride, P=padding\")]]`");
      else if (!own_parameter(function, each.now))
        wrong(each.span, "says `" + each.now + "`, which is no compile-time parameter of the function");
      else if (const Parameter* today = own_parameter(function, each.former))
        wrong(each.span, "says `" + each.former + "`, which is a parameter of today")
            .label(today->name.span, "declared here");
      else if (is_input(function, each.former)) wrong(each.span, "says `" + each.former + "`, which is an input");
      else if (known != names.end()) wrong(each.span, "says `" + each.former + "` twice");
      else names.push_back(std::move(each));
    }
  }
  return names;
}

const Parameter* parameter_called(const Function& function, std::string_view spelled) {
  if (const Parameter* own = own_parameter(function, spelled)) return own;
  Diagnostics unheard;
  for (const Former& each : former_names(function, unheard))
    if (each.former == spelled) return own_parameter(function, each.now);
  return nullptr;
}

void warn_of_former(
    const Function& function, const Parameter& parameter, std::string_view given, Span span, Diagnostics& diagnostics) {
  const std::string now = parameter.name.spelled();
  if (given == now) return;
  diagnostics.report(span, messages::former_name, given, function.name ? function.name->text : "function", now)
      .hint("write `" + now + "=`: the former name goes with the next version");
}

}  // namespace tilec::lang
