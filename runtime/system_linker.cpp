#include "runtime/system_linker.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/temporary_folder.h"

extern char** environ;

namespace tilec::runtime {

namespace {

[[noreturn]] void no_library(const std::string& why) {
  throw machine_error(messages::no_linker, why).hint("write `-o f.o` or `-o f.a`, which need no `cc`, and link them where there is one");
}

}  // namespace

std::string shared_library_of(const std::string& object) {
  const TemporaryFolder folder;
  const std::string in = folder / "code.o", out = folder / "code.so", said = folder / "said";
  write_file(in, object);
  // Without the files that start a program: there is nothing to start, and they are not the same everywhere.
  std::vector<std::string> words = {"cc", "-shared", "-nostartfiles", "-Wl,-z,defs", "-Wl,-z,noexecstack", "-o", out, in, "-lm"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_addopen(&streams, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&streams, 1, 2);
  pid_t child = 0;
  const int fault = posix_spawnp(&child, "cc", &streams, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&streams);
  if (fault != 0) no_library(fault == ENOENT ? "it is not found on PATH" : std::strerror(fault));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) no_library(std::strerror(errno));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string text = DataFile(said).read(4096);
    no_library(text.empty() ? "it failed" : fmt::format("it failed:\n{}", text.substr(0, text.find_last_not_of('\n') + 1)));
  }
  return DataFile(out).rest();
}

}  // namespace tilec::runtime
