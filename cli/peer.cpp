#include "cli/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/formula.h"
#include "cli/options.h"
#include "cli/peer_script.h"
#include "lang/render.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/npy.h"

extern char** environ;

namespace tilec::cli {

namespace {

namespace messages = lang::messages;

// Of NumPy, and of PyTorch and JAX.
const char* python_type(lang::DType dtype) {
  switch (dtype) {
    case lang::DType::Bool: return "bool";
    case lang::DType::I8: return "int8";
    case lang::DType::I16: return "int16";
    case lang::DType::I32: return "int32";
    case lang::DType::I64: return "int64";
    case lang::DType::U8: return "uint8";
    case lang::DType::U16: return "uint16";
    case lang::DType::U32: return "uint32";
    case lang::DType::U64: return "uint64";
    case lang::DType::F16: return "float16";
    case lang::DType::BF16: return "bfloat16";
    case lang::DType::F32: return "float32";
    case lang::DType::F64: return "float64";
  }
  return "";
}

std::string in_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::string> all;
  for (const auto& [first, second] : pairs)
    all.push_back(fmt::format("[{}, {}]", lang::in_json(first), lang::in_json(second)));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

// `torch`, or `torch=torch.softmax(X, -1)`.
PeerKind kind_of(const std::string& asked) {
  const std::string name = asked.substr(0, asked.find('='));
  if (name == "numpy") return PeerKind::Numpy;
  if (name == "torch") return PeerKind::Torch;
  if (name == "jax") return PeerKind::Jax;
  throw UsageError{fmt::format("`{}` is no library that --vs knows", name),
      "write `--vs numpy`, `--vs torch` or `--vs jax`, with `=` and an expression of Python behind it where the program is no product"};
}

}  // namespace

Peer::Peer(const std::string& asked, const poly::Program& program, const runtime::Module& module,
    const std::vector<runtime::Tensor>& inputs, const std::vector<runtime::Tensor>& outputs, int threads)
    : name_(asked.substr(0, asked.find('='))) {
  kind_of(asked);
  const auto equals = asked.find('=');
  write_spec(equals == std::string::npos ? std::string() : asked.substr(equals + 1), program, module, inputs, outputs,
      threads);
  start();
  const std::string said = line();
  const std::string word = said.substr(0, said.find(' ')), rest = said.substr(std::min(said.size(), word.size() + 1));
  if (word == "missing")
    throw runtime::machine_error(messages::no_peer, name_, rest)
        .hint(fmt::format("install it where `python3` finds it: `python3 -m pip install numpy{}`",
            name_ == "numpy" ? "" : " " + name_));
  if (word == "failed")
    throw runtime::argument_error(messages::peer_fault, name_, rest)
        .hint(fmt::format("inputs are called {}; modules are numpy, np{}",
            fmt::join(
                [&] {
                  std::vector<std::string> names;
                  for (const runtime::Port& port : module.inputs)
                    names.push_back(fmt::format("`{}`", python_name(port.name)));
                  return names;
                }(),
                ", "),
            name_ == "numpy"     ? ""
                : name_ == "jax" ? ", jax and jnp"
                                 : ", " + name_));
  if (word == "differs") throw runtime::argument_error(messages::peer_differs, formula_, name_, rest);
  if (word != "ready") throw runtime::machine_error(messages::no_peer, name_, "python3 ended before it answered");
  version_ = rest.substr(0, rest.find(' ')), error_ = rest.substr(std::min(rest.size(), version_.size() + 1));
}

Peer::~Peer() {
  if (to_) std::fclose(to_);                            // the end of its input ends it
  if (from_) std::fclose(from_);
  if (child_ > 0)
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {}
}

void Peer::write_spec(const std::string& expression, const poly::Program& program, const runtime::Module& module,
    const std::vector<runtime::Tensor>& inputs, const std::vector<runtime::Tensor>& outputs, int threads) {
  Formula formula;
  if (expression.empty()) {
    std::variant<Formula, NoFormula> own = formula_of(program, kind_of(name_));
    if (const auto* none = std::get_if<NoFormula>(&own))
      throw runtime::argument_error(messages::no_formula, name_, none->tensor, none->why)
          .hint(fmt::format("say what {} should compute: `--vs '{}=EXPRESSION'`, of the inputs by name", name_, name_));
    formula = std::get<Formula>(std::move(own));
  } else {
    formula.results = {expression};
  }
  std::vector<std::string> shown;
  for (const auto& [name, value] : formula.lines)
    shown.push_back(formula.lines.size() == 1 ? value : fmt::format("{} = {}", name, value));
  formula_ = expression.empty() ? fmt::format("{}", fmt::join(shown, "; ")) : expression;
  std::vector<std::pair<std::string, std::string>> in, out;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (name_ == "numpy" && inputs[k].dtype == lang::DType::BF16)
      throw runtime::argument_error(
          messages::peer_fault, name_, fmt::format("`{}` is `bf16`, which NumPy does not have", module.inputs[k].name));
    runtime::write_npy(folder_ / fmt::format("in{}.npy", k), inputs[k]);
    in.emplace_back(python_name(module.inputs[k].name), python_type(inputs[k].dtype));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    runtime::write_npy(folder_ / fmt::format("out{}.npy", k), outputs[k]);
    out.emplace_back(module.outputs[k].name, python_type(outputs[k].dtype));
  }
  const std::string value =
      formula.results.size() == 1 ? formula.results.front() : fmt::format("{},", fmt::join(formula.results, ", "));
  runtime::write_file(folder_ / "spec.json",
      fmt::format(
          "{{\"peer\": {}, \"threads\": {}, \"inputs\": {}, \"outputs\": {}, \"once\": {}, \"lines\": {}, \"value\": {}}}\n",
          lang::in_json(name_), threads, in_json(in), in_json(out), in_json(formula.once), in_json(formula.lines),
          lang::in_json(value)));
  runtime::write_file(folder_ / "peer.py", peer_script().front().text);
}

void Peer::start() {
  int in[2], out[2];                                     // of the child
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0)
    throw runtime::machine_error(messages::no_peer, name_, std::strerror(errno));
  ::signal(SIGPIPE, SIG_IGN);                            // a child that is gone shows when it is asked
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_adddup2(&streams, in[0], 0);
  posix_spawn_file_actions_adddup2(&streams, out[1], 1);
  std::vector<std::string> words = {"python3", folder_ / "peer.py", folder_.path()};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int fault = ::posix_spawnp(&child_, "python3", &streams, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&streams);
  ::close(in[0]), ::close(out[1]);
  to_ = ::fdopen(in[1], "w"), from_ = ::fdopen(out[0], "r");
  if (fault == 0) return;
  child_ = 0;
  std::fclose(to_), std::fclose(from_);
  throw runtime::machine_error(
      messages::no_peer, name_, fault == ENOENT ? "`python3` is not found on PATH" : std::strerror(fault))
      .hint("install Python 3, NumPy and what --vs names");
}

std::string Peer::line() {
  std::string text;
  for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) text += static_cast<char>(c);
  return text;
}

double Peer::seconds_of(std::size_t calls) {
  fmt::print(to_, "{}\n", calls);
  std::fflush(to_);
  const std::string said = line();
  char* end = nullptr;
  const double seconds = std::strtod(said.c_str(), &end);
  if (said.empty() || *end != '\0')
    throw runtime::machine_error(messages::no_peer, name_, "python3 ended while it was measured");
  return seconds;
}

}  // namespace tilec::cli
