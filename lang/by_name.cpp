#include "lang/by_name.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "lang/messages.h"

namespace tilec::lang {
namespace {

bool belongs(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Of "a, b=c" {a, ""} and {b, c}; what is no such list has a name that is empty.
std::vector<std::pair<std::string, std::string>> list_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> found(1);
  bool right = false, ended = false;                     // behind `=`; behind the blank after a name
  for (const char c : text) {
    std::string& name = right ? found.back().second : found.back().first;
    if (c == ' ') ended = !name.empty();
    else if (c == ',' || (c == '=' && !right)) ended = false;
    else if (!belongs(c) || ended) return {{}};
    if (c == ',') found.emplace_back();
    if (c == ',' || c == '=') right = c == '=';
    else if (c != ' ') name += c;
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> said_by(const Function& function, std::string_view attribute) {
  for (const Attribute& word : function.attributes)
    if (word.name.text == attribute && word.values.size() == 1)
      if (const auto* text = std::get_if<std::string>(&word.values[0].value)) return list_of(*text);
  return {};
}

// A list of names, each with another one behind it or none.
bool are_names(const Value& value) {
  const auto* text = std::get_if<std::string>(&value.value);
  return text && std::ranges::all_of(list_of(*text), [](const auto& each) {
    return !each.first.empty() && each.second.empty();
  });
}

// "channels_last, channels_first=conv2d_nchw": that of the function, and the others with who reads them.
bool are_layouts(const Value& value) {
  const auto* text = std::get_if<std::string>(&value.value);
  const auto all = text ? list_of(*text) : decltype(list_of(""))();
  return all.size() > 1 && std::ranges::all_of(all, [&](const auto& each) {
    return !each.first.empty() && each.second.empty() == (&each == &all[0]);
  });
}

bool has(const Function& function, const std::string& name) {
  return std::ranges::any_of(function.parameters, [&](const Parameter& p) { return p.name.text == name; }) ||
      std::ranges::any_of(function.inputs, [&](const Input& input) { return input.target.name.text == name; });
}

}  // namespace

std::vector<Layout> layouts_of(const Function& function) {
  std::vector<Layout> all;
  for (auto& [name, other] : said_by(function, "layout"))
    all.push_back({name, all.empty() && function.name ? function.name->text : other});
  return all;
}

std::vector<std::string> asked_of(const Function& function) {
  std::vector<std::string> all;
  for (auto& [name, none] : said_by(function, "ask")) all.push_back(name);
  return all;
}

std::string layout_hint(const Function& function) {
  const std::vector<Layout> all = layouts_of(function);
  if (all.size() < 2) return {};
  return fmt::format("`{}` reads {}; {} is `layout={}` of a call by name, and `{}` in a text", all[0].function,
      all[0].name, all[1].name, all[1].name, all[1].function);
}

void check_by_name(const Function& function, Diagnostics& diagnostics) {
  for (const Attribute& word : function.attributes) {
    const std::string& name = word.name.text;
    const auto each_is = [&](bool (*fits)(const Value&)) {
      return !word.values.empty() && std::ranges::all_of(word.values, fits);
    };
    const auto report = [&](const char* what, const char* example) {
      diagnostics.report(word.name.span, messages::attribute_values, name, what)
          .hint(fmt::format("write `[[{}]]`", example));
    };
    if (name == "also" && !each_is(are_names)) report("takes a string of names", "also(\"mm, bmm\")");
    if (name == "layout" && (word.values.size() != 1 || !each_is(are_layouts)))
      report("takes a string: the order of dimensions that the function reads, and the functions that read others",
          "layout(\"channels_last, channels_first=f_nchw\")");
    const auto asked = name == "ask" ? asked_of(function) : std::vector<std::string>();
    const bool known = std::ranges::all_of(asked, [&](const std::string& each) { return has(function, each); });
    if (name == "ask" && (word.values.size() != 1 || !each_is(are_names) || !known))
      report("takes a string of parameters and inputs of the function", "ask(\"dim\")");
  }
}

}  // namespace tilec::lang
