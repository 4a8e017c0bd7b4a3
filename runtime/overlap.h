// Do two strided tensors share a byte? Exactly, not by their outermost bytes: even and odd columns of one matrix do
// not.
//
//   X[0:4] and X[2:6] of one array   ⇒   true            X[::2] and X[1::2]   ⇒   false
//
// Two elements meet where the sum of stride times position over the dimensions of both lies within an interval as wide
// as the elements: a bounded linear equation. Dimensions are taken from the largest stride down, and what the smaller
// ones can still add leaves two or three positions of each; a search that takes longer than that (made so on purpose)
// ends with "they may".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/module.h"

namespace tilec::runtime {

// Where a tensor's elements lie, in bytes from its element 0: from `low` to below `high`. Empty: nowhere.
struct Layout {
  struct Dimension { std::int64_t count, stride; };
  std::int64_t low = 0, high = 0;
  int element = 0;                                       // bytes of one
  std::vector<Dimension> dimensions;                     // of two elements and more
};

// RuntimeError E0559 when an address would not fit 63 bits.
Layout layout_of(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape,
    const std::vector<std::int64_t>& strides);

bool overlap(const Layout& a, const void* at_a, const Layout& b, const void* at_b);
bool overlaps_itself(const Layout& layout);

// Runs a module on memory that its caller chose. An input that shares memory with an output is copied before the run,
// so that the result is that of memory apart; outputs that share memory are refused (E0552), and so is an address that
// no element can have (E0556) and one that is absent (E0559).
class Caller {
 public:
  explicit Caller(const Module& module);
  // workspace: Module::run_in; null: the module's own
  void run(void* const* inputs, void* const* outputs, void* workspace = nullptr) const;
  // Module::run_timed
  void run_timed(void* const* inputs, void* const* outputs, std::vector<double>& milliseconds) const;
  // Module::run_on. Nothing is copied there: an input that shares memory with an output is refused, as are strides
  // that the module does not take (E0559). Without a device: run, of no stream.
  void run_on(void* const* inputs, void* const* outputs, void* workspace, void* stream) const;

 private:
  void check(const Port& port, const Layout& layout, const void* data) const;
  bool shares(std::size_t input, void* const* inputs, void* const* outputs) const;
  void check_outputs(void* const* outputs) const;
  void check_on_device(const Port& port, const Layout& layout, const void* data) const;
  void check_workspace(void* const* inputs, void* const* outputs, void* workspace, std::int64_t bytes) const;
  template <class Start> void run_apart(void* const* inputs, void* const* outputs, Start start) const;
  template <class Start>
  void run_on_copies(const std::vector<std::size_t>& shared, void* const* inputs, Start start) const;

  const Module& module_;
  std::vector<Layout> inputs_, outputs_;
  std::string strided_;                                  // a port of a device whose strides the module does not take
};

}  // namespace tilec::runtime
