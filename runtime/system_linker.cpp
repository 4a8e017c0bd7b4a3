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

// What `cc` makes of `source`, called `in`.
std::string made_by_cc(const char* what, const char* hint, const char* in, const std::string& source,
    const std::vector<const char*>& options, const std::vector<const char*>& libraries) {
  const auto no = [&](const std::string& why) { return machine_error(messages::no_linker, what, why).hint(hint); };
  const TemporaryFolder folder;
  const std::string from = folder / in, out = folder / "made", said = folder / "said";
  write_file(from, source);
  std::vector<std::string> words = {"cc"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"-o", out, from});
  words.insert(words.end(), libraries.begin(), libraries.end());
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
  if (fault != 0) throw no(fault == ENOENT ? "it is not found on PATH" : std::strerror(fault));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw no(std::strerror(errno));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string text = DataFile(said).read(4096);
    throw no(
        text.empty() ? "it failed" : fmt::format("it failed:\n{}", text.substr(0, text.find_last_not_of('\n') + 1)));
  }
  return DataFile(out).rest();
}

}  // namespace

// Without the files that start a program: there is nothing to start, and they are not the same everywhere.
std::string shared_library_of(const std::string& object) {
  return made_by_cc("shared library", "write `-o f.o` or `-o f.a`, and link them where there is one", "code.o", object,
      {"-shared", "-nostartfiles", "-Wl,-z,defs", "-Wl,-z,noexecstack"},
      {"-lm", "-Wl,--as-needed", "-ldl", "-lpthread"});
}

std::string object_of_c(const std::string& source) {
  return made_by_cc("object file", "write `-o f.c`, and compile it where there is one", "code.c", source,
      {"-std=c11", "-O2", "-fPIC", "-c"}, {});
}

}  // namespace tilec::runtime
