// Where results go: files that `O=out.npy` names, and a few lines on standard output.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/call.h"
#include "runtime/file.h"
#include "runtime/module.h"

namespace tilec::cli {

// A file that a call writes, and which outputs go there: one, or the members of an archive (what each is called there,
// and the output).
struct OutputFile {
  std::string path;
  bool archive = false, whole = true;
  std::vector<std::pair<std::string, std::string>> members = {};
};

// `O=out.npy`, `O=both.npz` with other outputs, `O=both.npz:name`. Asked before the run, so that no work is lost for a
// bad name.
std::vector<OutputFile> output_files(const std::vector<Word>& words, runtime::Files& files);
void write_outputs(
    const runtime::Module& module, const std::vector<runtime::Tensor>& outputs, const std::vector<OutputFile>& files);
void print_summaries(
    const runtime::Module& module, const std::vector<runtime::Tensor>& outputs, const std::vector<Word>& words);

}  // namespace tilec::cli
