// `tilec`: reads the command line, calls one command, and turns every fault into a message and an exit status.
#include <fmt/core.h>

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "cli/options.h"
#include "cli/session.h"
#include "lang/render.h"
#include "runtime/error.h"

namespace tilec::cli {

namespace {

int dispatch(const Options& options) {
  if (options.command == "check") return check_command(options);
  if (options.command == "run") return run_command(options);
  if (options.command == "build") return build_command(options);
  if (options.command == "grad") return grad_command(options);
  if (options.command == "fmt") return fmt_command(options);
  if (options.command == "test") return test_command(options);
  if (options.command == "tune") return tune_command(options);
  if (options.command == "targets") return targets_command(options);
  if (options.command == "bench") return bench_command(options);
  if (options.command == "compare") return compare_command(options);
  if (options.command == "lsp") return lsp_command(options);
  if (options.command == "completion") return completion_command(options);
  if (options.command == "cache") return cache_command(options);
  if (options.command == "stages") return stages_command(options);
  if (options.command == "explain") return explain_command(options);
  if (options.command == "report") return report_command(options);
  return emit_command(options);
}

int usage_fault(const UsageError& fault) {
  fmt::print(stderr, "tilec: {}\n", fault.message);
  if (!fault.hint.empty()) fmt::print(stderr, "hint: {}\n", fault.hint);
  return usage_error;
}

int runtime_fault(const runtime::RuntimeError& fault, const Options& options) {
  lang::Diagnostics one;
  one.add(fault.diagnostic);
  show(one, fault.sources ? *fault.sources : std::vector<lang::Source>{}, options);
  if (fault.sources) return program_error;              // an input that the program, at the place shown, does not take
  return fault.blame == runtime::Blame::Machine ? environment_error : usage_error;
}

int bug(const char* what, int argc, char** argv) {
  fmt::print(stderr, "tilec: internal error: {}\nThis is our bug. Please send the file and this command:\n ", what);
  for (int k = 0; k < argc; ++k) fmt::print(stderr, " {}", argv[k]);
  fmt::print(stderr, "\nversion {}\n", TILEC_VERSION);
  return our_bug;
}

// A file that is opened while one of them is closed would take its number, and what is printed.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

// What was printed may still wait for a full disk.
int finished(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  throw runtime::machine_error(runtime::messages::unwritable, "standard output", std::strerror(errno));
}

int guarded(int argc, char** argv) {
  Options options;
  open_standard_streams();
  try {
    const Parsed parsed = parse_options(argc, argv);
    options = parsed.options;
    if (parsed.print) {
      fmt::print("{}", *parsed.print);
      return finished(success);
    }
    return finished(dispatch(options));
  } catch (const UsageError& fault) {
    return usage_fault(fault);
  } catch (const runtime::RuntimeError& fault) {
    return runtime_fault(fault, options);
  } catch (const std::bad_alloc&) {
    return runtime_fault(runtime::machine_error(
                             runtime::messages::out_of_memory, "tilec", "what it works on is larger than this machine"),
        options);
  } catch (const std::exception& fault) {
    if (std::ferror(stdout) != 0)
      return runtime_fault(
          runtime::machine_error(runtime::messages::unwritable, "standard output", std::strerror(errno)), options);
    return bug(fault.what(), argc, argv);
  }
}

}  // namespace

}  // namespace tilec::cli

// Not of the C API: of a Python package's libtilec.so `tilec` takes this alone.
extern "C" __attribute__((visibility("default"))) int tilec_main(int argc, char** argv) {
  return tilec::cli::guarded(argc, argv);
}
