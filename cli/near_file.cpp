#include "cli/near_file.h"

#include <filesystem>
#include <vector>

#include "lang/nearest.h"

namespace tilec::cli {

namespace fs = std::filesystem;

std::optional<std::string> near_file(const std::string& path) {
  constexpr std::size_t most = 10'000;                 // of a folder that is looked at
  std::error_code fault;
  const fs::path asked(path), folder = asked.has_parent_path() ? asked.parent_path() : fs::path(".");
  if (path == "-" || fs::exists(asked, fault)) return std::nullopt;
  const std::string name = asked.filename().string();
  std::vector<std::string> same, others;               // of the same kind: `.tile`, `.npy`
  std::size_t seen = 0;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end && seen < most; at.increment(fault), ++seen) {
    const fs::path entry = at->path().filename();
    if (entry.stem() == name && (entry.extension() == ".tile" || entry.extension() == ".npy"))
      return (asked.has_parent_path() ? folder / entry : entry).string();
    (entry.extension() == asked.extension() ? same : others).push_back(entry.string());
  }
  auto near = lang::nearest(name, same);
  if (!near) near = lang::nearest(name, others);
  if (!near) return std::nullopt;
  return asked.has_parent_path() ? (folder / *near).string() : *near;
}

}  // namespace tilec::cli
