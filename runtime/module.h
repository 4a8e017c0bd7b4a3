// A package loaded for its target: what one call of one program at one shape runs.
//
//   std::shared_ptr<const Module> f = load(stages, target);
//   void* in[] = {a.data, b.data}; void* out[] = {c.data};
//   f->run(in, out);
//
// A Module may be used from several threads at once: scratch belongs to a call. `run` waits for its outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/package.h"
#include "codegen/pipeline.h"
#include "runtime/parallel.h"
#include "runtime/tensor.h"

namespace tilec::runtime {

using codegen::Port;

class Module {
 public:
  virtual ~Module() = default;
  std::string name;
  std::vector<Port> inputs, outputs;                   // in the program's order
  std::vector<std::size_t> added;                      // positions of outputs that a run adds to
  std::vector<std::string> launches;                   // of a run, in order, by their kernels; none where it is
                                                       // interpreted
  std::int64_t code = 0;                               // bytes of them
  std::shared_ptr<const codegen::Package> package;     // that it was loaded from and which says all of it; null: there
                                                       // is none
  int threads = 0;                                     // it was loaded for
  virtual void run(void* const* inputs, void* const* outputs) const = 0;
  // The same, and the milliseconds that each launch took, as in `launches`.
  virtual void run_timed(void* const* inputs, void* const* outputs, std::vector<double>& milliseconds) const = 0;
  // The same in memory of the caller's, workspace() bytes aligned to 64, of which each call that runs at one time has
  // its own: nothing is allocated. 0: a run needs none, or has it where the caller cannot give it (a device).
  virtual std::int64_t workspace() const { return 0; }
  virtual void run_in(void* const* inputs, void* const* outputs, void*) const { run(inputs, outputs); }
  // On tensors in the memory of the module's device, and device_workspace() bytes there: started on `stream`
  // (a CUstream; null: the default one), not waited for. Not where has_device() is false: the host's memory is all
  // there is.
  virtual bool has_device() const { return false; }
  virtual bool takes_strides() const { return !has_device(); }  // those of its ports, in run_on; false: row-major
  virtual DLDevice device() const { return {kDLCPU, 0}; }  // where it takes its tensors from: of run_on, if it has a
                                                           // device
  virtual std::int64_t device_workspace() const { return 0; }
  virtual void run_on(void* const* inputs, void* const* outputs, void* workspace, void* stream) const;
  // Bytes there, before what is started on the stream next.
  virtual void copy_on(void* to, const void* from, std::int64_t bytes, void* stream) const;

 protected:
  void take(const codegen::Package& from, int for_threads);  // its name, ports and launches
  void take_launches(const Module& inner);
};

// What was compiled for a request, here or on this machine before: E0520 where it does not run it.
std::shared_ptr<const Module> load(const codegen::Package& package, const codegen::Request& request);
void check_machine(const codegen::Package& package);   // E0520 where this CPU does not run its code
// A package that was saved: E0520 likewise, E0534 where its machine code is none. Of a pair the function alone, which
// drops what it keeps.
std::shared_ptr<const Module> load(const codegen::Package& package, int threads);
// Of a pair: one call that takes the cotangents too, and gives outputs and gradients.
std::shared_ptr<const Module> load_both(const codegen::Package& package, int threads);
// Of a pair: forward, whose last outputs are what it keeps, and backward; null where the package is no pair.
struct Halves { std::shared_ptr<const Module> forward, backward; };
Halves load_halves(const codegen::Package& package, int threads);
codegen::Until until_for(const codegen::Target& target);

// The interpreter over a bound Program; its magnitudes are for --check.
std::shared_ptr<const Module> load_reference(const poly::Program& program, const codegen::Request& request);
// Machine code in this process (cpu.cpp), and a GPU or PoCL behind a Device. `threads`: 1, or 0 for the pool of the
// process.
std::shared_ptr<const Module> load_cpu(const codegen::Package& package, int threads);
// in_place: tensors lie in the device's memory as the ports say, and not row-major
std::shared_ptr<const Module> load_device(const codegen::Package& package, bool in_place = false);

Port port_of(const poly::Tensor& tensor);              // row-major
bool is_row_major(const Port& port);                   // as is any without elements
std::string without_mark(const std::string& name);     // `#a` is `a` to the API

}  // namespace tilec::runtime
