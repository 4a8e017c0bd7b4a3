// Packages on the command line: `tilec run f.tilec`.
#pragma once

#include <string>
#include <vector>

#include "cli/call.h"
#include "cli/session.h"

namespace tilec::cli {

bool is_package_file(const std::string& path);
int run_package(const Options& options, const std::vector<Word>& words);
int run_package(const Options& options, const std::vector<Word>& words, const std::string& bytes);  // of a pipe

}  // namespace tilec::cli
