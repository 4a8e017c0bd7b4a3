#include "cli/standard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "cli/options.h"
#include "lang/by_name.h"
#include "lang/idiom.h"
#include "lang/nearest.h"
#include "runtime/standard_library.h"

namespace tilec::cli {
namespace {

constexpr std::string_view prefix = "std:";

struct Place { std::string_view file, function; };

// Where a function is, by its name and by those that others have for it: two places for `mean`, one for most.
std::map<std::string, std::vector<Place>> places() {
  std::map<std::string, std::vector<Place>> found;
  for (const lang::StandardName& each : lang::standard_names())
    found[std::string(each.name)].push_back({each.file, each.name});
  for (const lang::OtherName& each : lang::other_standard_names())
    found[std::string(each.other)].push_back({each.file, each.name});
  return found;
}

std::vector<std::string> words_of(const std::string& function, const std::vector<Place>& all) {
  if (all.size() == 1) return {fmt::format("{}{}", prefix, function)};
  std::vector<std::string> words;
  for (const Place& each : all) words.push_back(fmt::format("{}{}.{}", prefix, each.file, each.function));
  return words;
}

std::string either(const std::vector<std::string>& words) { return fmt::format("`{}`", fmt::join(words, "` or `")); }

// Whether a comment says `torch.median`, `np.median` or `ONNX Median` of `median`.
bool mentions(std::string_view line, const std::string& name) {
  for (const std::string& mark : {"." + name, "ONNX " + name})
    for (auto at = line.find(mark); at != std::string_view::npos; at = line.find(mark, at + 1)) {
      const char next = at + mark.size() < line.size() ? line[at + mark.size()] : ' ';
      if (std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_') return true;
    }
  return false;
}

// Functions whose comment says that others call them so. One without a comment is described by that of the one before.
std::vector<std::string> described_as(const std::string& name) {
  constexpr std::string_view comment = "//", function = "function ";
  std::vector<std::string> found;
  for (const runtime::StandardFile& file : runtime::standard_library()) {
    bool inside = false, prose = false, said = false;
    for (std::size_t from = 0; from < file.text.size();) {
      const std::size_t end = std::min(file.text.find('\n', from), file.text.size());
      const std::string_view line = std::string_view(file.text).substr(from, end - from);
      from = end + 1;
      const bool is_comment = line.starts_with(comment);
      if (is_comment && !inside) prose = true, said = false;
      inside = is_comment;
      if (line == "// ==") prose = false;
      said = said || (is_comment && prose && mentions(line, name));
      if (said && line.starts_with(function))
        found.emplace_back(line.substr(function.size(), line.find_first_of("<(") - function.size()));
    }
  }
  return found;
}

// What others call so, the nearest name, and some that contain what was written.
std::string hint_of(const std::string& function) {
  constexpr std::size_t shortest = 3, most = 5;
  const auto all = places();
  if (auto described = described_as(function); !function.empty() && !described.empty()) {
    described.resize(std::min(described.size(), most));
    for (std::string& name : described) name = words_of(name, all.at(name))[0];
    return fmt::format("see {}, whose comment names it", either(described));
  }
  std::vector<std::string> own, names, meant;
  for (const lang::StandardName& each : lang::standard_names()) own.emplace_back(each.name);
  for (const auto& [name, found] : all) names.push_back(name);
  const auto add = [&](const std::string& name) {
    for (const std::string& word : words_of(name, all.at(name))) meant.push_back(word);
  };
  const auto near = lang::nearest(function, own);
  if (near) add(*near);
  for (const std::string& name : names)
    if (function.size() >= shortest && meant.size() < most && name != near && name.find(function) != std::string::npos)
      add(name);
  const auto other = meant.empty() ? lang::nearest(function, names) : std::nullopt;
  if (other) add(*other);
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
  const auto all = places();
  const auto found = all.find(function);
  if (found == all.end()) throw UsageError{fmt::format("std/ has no function `{}`", name), hint_of(function)};
  const std::vector<Place>& choice = found->second;
  if (family.empty() && choice.size() > 1)
    throw UsageError{fmt::format("std/ has `{}` in several files", function),
        fmt::format("write {}", either(words_of(function, choice)))};
  const auto place = family.empty() ? choice.begin() : std::ranges::find(choice, family, &Place::file);
  if (place == choice.end())
    throw UsageError{fmt::format("std/ has no function `{}`", name),
        fmt::format("did you mean {}?", either(words_of(function, choice)))};
  const auto text = std::ranges::find(runtime::standard_library(), place->file, &runtime::StandardFile::name)->text;
  return {fmt::format("std/{}.tile", place->file), text, std::string(place->function)};
}

std::optional<std::string> standard_in_layout(const std::string& word, const std::string& layout) {
  const std::string function = standard_function(word).function;
  std::vector<std::string> known;
  for (const lang::LayoutName& each : lang::standard_layouts()) {
    if (each.name != function) continue;
    if (each.layout == layout) return fmt::format("{}{}", prefix, each.function);
    known.push_back(fmt::format("layout={}", each.layout));
  }
  if (known.empty()) return std::nullopt;
  throw UsageError{fmt::format("`layout={}` of `{}` is no order of dimensions", layout, word),
      fmt::format("write {}", either(known))};
}

void refuse_unsaid(const std::string& word, const lang::Function& function, const std::set<std::string>& defines,
    const Shapes& shapes) {
  const auto shape_of = [&](const std::string& name) {
    const auto found = shapes.find(name);
    return found == shapes.end() ? std::vector<std::int64_t>() : found->second;
  };
  const std::string first = function.inputs.empty() ? "" : function.inputs[0].target.name.text;
  const std::size_t rank = shape_of(first).size();
  for (const std::string& name : lang::asked_of(function)) {
    if (std::ranges::count(function.inputs, name, [](const auto& input) { return input.target.name.text; }) > 0) {
      if (rank < 3 || shape_of(name).size() != 1 || shape_of(name)[0] < 2) continue;
      throw UsageError{fmt::format("`{}` of {} is along dimension 1 of `{}` in PyTorch and along the last in ONNX",
                           name, word, first),
          fmt::format("give `{}` as many dimensions as `{}` has, in which it is 1 but in one", name, first)};
    }
    if (rank < 2 || defines.contains(name)) continue;
    throw UsageError{
        fmt::format("{} of {} dimensions wants `{}`: without it NumPy means all of them", word, rank, name),
        fmt::format("write for instance `--define {}=-1`, which is the last", name)};
  }
}

std::string standard_word(const std::string& function) {
  const auto all = places();
  const auto found = all.find(function);
  return found != all.end() && found->second.size() == 1 ? words_of(function, found->second)[0] : std::string();
}

std::vector<std::string> standard_words() {
  std::vector<std::string> all;
  for (const auto& [function, found] : places())
    for (std::string& word : words_of(function, found)) all.push_back(std::move(word));
  return all;
}

}  // namespace tilec::cli
