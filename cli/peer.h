// Another library beside us, in a process of its own: the same inputs, its own way to compute the same, run when asked.
//
//   --vs torch                                     what formula.h makes of the program
//   --vs 'torch=torch.softmax(X, -1)'              what the user says, with inputs by name; a tuple where there are
//                                                  several outputs
//
// `python3` runs peer.py, with as many threads as the program has. RuntimeError: it is not here (E0546), cannot compute
// it (E0547), computes something else (E0548), or is given no formula (E0549).
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

#include "poly/program.h"
#include "runtime/module.h"
#include "runtime/temporary_folder.h"

namespace tilec::cli {

class Peer {
 public:
  // `outputs`: as the program computed them. `program`: bound.
  Peer(const std::string& asked, const poly::Program& program, const runtime::Module& module,
      const std::vector<runtime::Tensor>& inputs, const std::vector<runtime::Tensor>& outputs, int threads);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  double seconds_of(std::size_t calls);
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& error() const { return error_; }   // the largest, as a part of the largest value of its result
  const std::string& formula() const { return formula_; }  // as Python

 private:
  void write_spec(const std::string& expression, const poly::Program& program, const runtime::Module& module,
      const std::vector<runtime::Tensor>& inputs, const std::vector<runtime::Tensor>& outputs, int threads);
  void start();
  std::string line();

  runtime::TemporaryFolder folder_;
  std::string name_, version_, error_, formula_;
  pid_t child_ = 0;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace tilec::cli
