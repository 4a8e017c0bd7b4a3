#include "runtime/find.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "lang/nearest.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/standard_library.h"

namespace tilec::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view standard = "std/";

std::optional<lang::Source> standard_file(const std::string& path) {
  for (const StandardFile& file : standard_library())
    if (path == fmt::format("{}{}.tile", standard, file.name)) return lang::Source{path, std::string(file.text)};
  return std::nullopt;
}

std::string problem_of(const std::string& path, const std::vector<fs::path>& tried) {
  std::vector<std::string> names;
  for (const StandardFile& file : standard_library()) names.push_back(fmt::format("{}{}.tile", standard, file.name));
  for (const std::string& name : names)                 // `softmax`, `softmax.tile`, `std/softmax`
    if (name == path + ".tile" || name == fmt::format("{}{}", standard, path) ||
        name == fmt::format("{}{}.tile", standard, path))
      return fmt::format("did you mean `{}`?", name);
  if (path.starts_with(standard))
    if (const auto near = lang::nearest(path, names)) return fmt::format("did you mean `{}`?", *near);
  std::string folders;
  for (const fs::path& folder : tried)
    folders += fmt::format("{}`{}`", folders.empty() ? "" : ", ", folder.empty() ? "." : folder.string());
  return fmt::format("it is not in {} nor a part of std/", folders);
}

}  // namespace

std::string name_of_file(const std::string& written) {
  const fs::path path(written);
  std::error_code fault;
  const fs::path found = fs::weakly_canonical(path, fault);
  const fs::path near = fault ? path : fs::proximate(found, fs::current_path(fault), fault);
  return (fault || near.empty() || *near.begin() == ".." ? (found.empty() ? path : found) : near).string();
}

lang::Find find_in(std::vector<std::string> include) {
  return [include = std::move(include)](const std::string& path, const std::string& importer) -> lang::Found {
    const bool inside_standard = importer.starts_with(standard) && standard_file(importer);
    std::vector<fs::path> folders;
    if (!inside_standard) folders.push_back(fs::path(importer).parent_path());
    for (const std::string& folder : include) folders.emplace_back(folder);
    std::string unreadable;
    for (const fs::path& folder : folders) {
      const fs::path file = folder / path;
      std::error_code fault;
      if (!fs::exists(file, fault)) continue;
      try {
        return {lang::Source{name_of_file(file.string()), read_regular_text(file.string())}, {}};
      } catch (const RuntimeError& error) {
        if (fs::is_regular_file(file, fault)) return {std::nullopt, error.diagnostic.message};
        unreadable = error.diagnostic.message;           // another folder may have a file of this name
      }
    }
    if (auto source = standard_file(path)) return {std::move(source), {}};
    if (inside_standard && standard_file(std::string(standard) + path))
      return {standard_file(std::string(standard) + path), {}};
    return {std::nullopt, unreadable.empty() ? problem_of(path, folders) : unreadable};
  };
}

}  // namespace tilec::runtime
