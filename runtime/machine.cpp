#include "runtime/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace tilec::runtime {

namespace {

std::string architecture_here() {
  utsname name{};
  return uname(&name) == 0 ? name.machine : std::string();
}

// Linux writes avx512_bf16 where LLVM writes avx512bf16.
std::string plain(std::string text) {
  std::erase_if(text, [](char c) { return c == '_' || c == '.' || c == '-'; });
  return text;
}

// The words of the line `flags` (x86) or `Features` (ARM); empty where the system does not say.
std::set<std::string> flags_here() {
  std::set<std::string> flags;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; flags.empty() && std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(std::min(line.size(), line.find(':') + 1)));
    for (std::string word; words >> word;) flags.insert(plain(word));
  }
  return flags;
}

bool has(const std::set<std::string>& flags, const std::string& feature) {
  static const std::map<std::string, std::string> other_names = {
      {"sse3", "pni"},
      {"bmi", "bmi1"},
      {"lzcnt", "abm"},
      {"neon", "asimd"},
      {"fparmv8", "fp"},
      {"fullfp16", "fphp"},
      {"dotprod", "asimddp"},
      {"lse", "atomics"},
      {"jsconv", "jscvt"},
      {"fp16fml", "asimdfhm"},
  };
  const std::string name = plain(feature);
  const auto other = other_names.find(name);
  return flags.contains(name) || (other != other_names.end() && flags.contains(other->second));
}

}  // namespace

std::string cannot_run(std::string_view architecture, const std::vector<std::string>& features) {
  static const std::string here = architecture_here();
  static const std::set<std::string> flags = flags_here();
  if (architecture != here) return "this machine is " + here + ", its code is " + std::string(architecture);
  if (flags.empty()) return {};
  const auto lacking = std::ranges::find_if(features, [](const std::string& feature) { return !has(flags, feature); });
  return lacking == features.end() ? std::string() : "this machine lacks " + *lacking;
}

}  // namespace tilec::runtime
