#include "cli/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/options.h"
#include "runtime/npy.h"

namespace tilec::cli {

using runtime::Tensor;

std::vector<OutputFile> output_files(const std::vector<Word>& words, runtime::Files& files) {
  std::vector<OutputFile> all;
  for (const Word& word : words) {
    if (word.value == "-")
      throw UsageError{fmt::format("`{}=-`: a result is not written to stdout", word.name),
          fmt::format("name a file, `{}=result.npy`, or leave it out to see the result", word.name)};
    const std::optional<ArchivePath> archive = archive_path(word.value);
    if (!archive) {
      all.push_back({word.value, false, true, {{word.name, word.name}}});
      continue;
    }
    const auto id = runtime::file_id(archive->file);
    auto at = std::ranges::find_if(
        all, [&](const OutputFile& file) { return file.archive && id && runtime::file_id(file.path) == id; });
    if (at == all.end()) at = all.insert(all.end(), {archive->file, true});
    at->whole &= archive->member.empty();              // `x.npz:name` is one member, and the others stay
    const std::string member = archive->member.empty() ? word.name : archive->member;
    for (const auto& [taken, by] : at->members)
      if (taken == member)
        throw UsageError{fmt::format("`{}` and `{}` would both be `{}` in `{}`", by, word.name, member, at->path),
            "write `NAME=FILE.npz:MEMBER`"};
    at->members.emplace_back(member, word.name);
  }
  for (const OutputFile& file : all) {
    files.writes(file.path);
    // no archive: said now, not after the run
    if (!file.whole && std::filesystem::is_regular_file(file.path)) static_cast<void>(runtime::Npz(file.path));
  }
  return all;
}

void write_outputs(
    const runtime::Module& module, const std::vector<Tensor>& outputs, const std::vector<OutputFile>& files) {
  for (const OutputFile& file : files) {
    std::vector<std::pair<std::string, Tensor>> members;
    for (const auto& [member, name] : file.members)
      members.emplace_back(member,
          outputs[static_cast<std::size_t>(
              std::ranges::find(module.outputs, name, &runtime::Port::name) - module.outputs.begin())]);
    if (!file.whole) runtime::update_npz(file.path, members);
    else if (file.archive) runtime::write_npz(file.path, members);
    else runtime::write_npy(file.path, members[0].second);
  }
}

void print_summaries(
    const runtime::Module& module, const std::vector<Tensor>& outputs, const std::vector<Word>& words) {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const runtime::Port& port = module.outputs[k];
    const auto file = std::ranges::find(words, port.name, &Word::name);
    if (file == words.end()) fmt::print("{}", summary(port.name, outputs[k]));
    else
      fmt::print("{}: {} {} written to {}\n", port.name, runtime::print_shape(port.shape), lang::name(port.dtype),
          file->value);
  }
}

}  // namespace tilec::cli
