#include "cli/standard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/options.h"
#include "lang/idiom.h"
#include "lang/nearest.h"
#include "runtime/standard_library.h"

namespace tilec::cli {
namespace {

constexpr std::string_view prefix = "std:";

// Files by function: two for `mean`, one for most.
std::map<std::string, std::vector<std::string>> families() {
  std::map<std::string, std::vector<std::string>> found;
  for (const lang::StandardName& each : lang::standard_names()) found[std::string(each.name)].emplace_back(each.file);
  return found;
}

std::vector<std::string> words_of(const std::string& function, const std::vector<std::string>& files) {
  if (files.size() == 1) return {fmt::format("{}{}", prefix, function)};
  std::vector<std::string> words;
  for (const std::string& file : files) words.push_back(fmt::format("{}{}.{}", prefix, file, function));
  return words;
}

std::string either(const std::vector<std::string>& words) { return fmt::format("`{}`", fmt::join(words, "` or `")); }

// The nearest name, and some that contain what was written.
std::string hint_of(const std::string& function) {
  constexpr std::size_t shortest = 3, most = 5;
  const auto all = families();
  std::vector<std::string> names, meant;
  for (const auto& [name, files] : all) names.push_back(name);
  const auto add = [&](const std::string& name) {
    for (const std::string& word : words_of(name, all.at(name))) meant.push_back(word);
  };
  const std::optional<std::string> near = lang::nearest(function, names);
  if (near) add(*near);
  for (const std::string& name : names)
    if (function.size() >= shortest && meant.size() < most && name != near && name.find(function) != std::string::npos)
      add(name);
  if (!meant.empty()) return fmt::format("did you mean {}?", either(meant));
  const auto first = std::ranges::find(lang::standard_names(), std::string_view(function), &lang::StandardName::file);
  if (first != lang::standard_names().end())
    return fmt::format(
        "std/{}.tile is a file: name a function of it, as in `{}{}.{}`", function, prefix, function, first->name);
  return "`tilec run std:softmax X=random:2x3` names one; std/README.md lists the files of functions";
}

}  // namespace

bool is_standard(std::string_view word) { return word.starts_with(prefix); }

bool names_program(std::string_view word) {
  return word == "-" || is_standard(word) || word.find_first_of("./") != std::string_view::npos;
}

StandardFunction standard_function(const std::string& word) {
  const std::string name = word.substr(prefix.size());
  const auto dot = name.rfind('.');
  const std::string family = dot == std::string::npos ? "" : name.substr(0, dot), function = name.substr(dot + 1);
  const auto all = families();
  const auto found = all.find(function);
  if (found == all.end()) throw UsageError{fmt::format("std/ has no function `{}`", name), hint_of(function)};
  const std::vector<std::string>& files = found->second;
  if (family.empty() && files.size() > 1)
    throw UsageError{fmt::format("std/ has `{}` in several files", function),
        fmt::format("write {}", either(words_of(function, files)))};
  const std::string file = family.empty() ? files[0] : family;
  if (std::ranges::count(files, file) == 0)
    throw UsageError{fmt::format("std/ has no function `{}`", name),
        fmt::format("did you mean {}?", either(words_of(function, files)))};
  const auto text = std::ranges::find(runtime::standard_library(), file, &runtime::StandardFile::name)->text;
  return {fmt::format("std/{}.tile", file), text, function};
}

std::string standard_word(const std::string& function) {
  const auto all = families();
  const auto found = all.find(function);
  return found != all.end() && found->second.size() == 1 ? words_of(function, found->second)[0] : std::string();
}

std::vector<std::string> standard_words() {
  std::vector<std::string> all;
  for (const auto& [function, files] : families())
    for (std::string& word : words_of(function, files)) all.push_back(std::move(word));
  return all;
}

}  // namespace tilec::cli
