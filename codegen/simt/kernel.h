// Prints the nest of Loops as a kernel. Every thread runs the text below the Block loops; what stands outside a Thread
// loop is run by all of them alike, so there only the stores to memory need one thread chosen.
//
//   for i in block 64                                   {
//     shared s f32[128]                                   __shared__ float s[128];   (at the top of the kernel)
//     for t in thread 128                    ⇒            const int i = (int)blockIdx.x;
//       register m f32[1]                                 { float m[1]; … tc_fold over all 128 threads … }
//       fold mx = max m[0] over t                       }
//
// Names get a C identifier each, unique in the kernel, so scopes of Loops need no scopes of C.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <string>

#include "codegen/simt/grid.h"
#include "codegen/simt/names.h"
#include "codegen/simt/ptx.h"
#include "codegen/simt/value.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::simt {

// What every kernel of a translation unit shares.
struct Unit {
  explicit Unit(Dialect d) : dialect(d), scalars(d) {}
  Dialect dialect;
  Scalars scalars;
  Identifiers globals;                                 // kernels and tables
  std::string tables, kernels;
};

class Kernel {
 public:
  Kernel(Unit& unit, const Loops& loops)
      : unit_(unit),
        scalars_(unit.scalars),
        ptx_(unit.scalars),
        speller_(unit.scalars),
        loops_(loops),
        function_(loops.functions.back()),
        cuda_(unit.dialect == Dialect::Cuda),
        copies_(has_copies(function_.body)),
        from_shared_(multiplies_shared(function_.body)),
        threads_(threads_of(function_.body)),
        grid_(grid_of(function_.body, cuda_)),
        names_(unit.globals) {}

  std::string text();

 private:
  void line(const std::string& words) { fmt::format_to(std::back_inserter(body_), "{:{}}{}\n", "", depth_ * 2, words); }
  void open(const std::string& words) { line(words.empty() ? "{" : words + " {"); ++depth_; }
  void close(const std::string& words = "") { --depth_; line(words.empty() ? "}" : "} " + words); }
  template <class... Arguments>
  void say(fmt::format_string<Arguments...> words, Arguments&&... arguments) {
    line(fmt::format(words, std::forward<Arguments>(arguments)...));
  }

  std::string alone(const ViewParameter& v) const;
  std::string signature();
  void parameters();
  void tables();
  void shared_pool();

  void statements(const Body& body);
  void blocks(const Body& body, const std::string& number);
  void block(const For& loop, const std::string& number);
  void top();

  void statement(const For& x);
  void statement(const If& x);
  void statement(const Let& x);
  void statement(const View& x);
  void statement(const Aligned& x);
  void statement(const Allocate& x);
  void statement(const Store& x);
  void statement(const Fold& x);
  void statement(const Barrier& x);
  void statement(const Prefetch&) {}                   // a hint; GPUs hide latency by their threads
  void statement(const Transpose& x) { throw lang::InternalError("`" + x.name + "` is transposed by threads"); }
  void statement(const Interleave& x) { throw lang::InternalError("`" + x.name + "` is interleaved by threads"); }
  void statement(const FoldRows& x) { throw lang::InternalError("rows of `" + x.name + "` are folded by threads"); }
  void statement(const CallStmt& x);
  void statement(const Copy& x);
  void statement(const Commit&) {
    on_tensor_cores("a group of copies"), line("asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
  }
  void statement(const Fragment& x);
  void statement(const Pack& x);
  void statement(const Exchange& x);
  void statement(const StorePacked& x);
  void statement(const Multiply& x);
  void statement(const MultiplyShared& x);
  void statement(const Await& x);
  void on_tensor_cores(const std::string& what) const;  // CUDA alone has it

  void thread(const For& x);
  void loop(const For& x);
  void let(const std::string& name, const Value& value);
  void shared(const Allocate& x, const std::string& name);
  int alignment() const { return from_shared_ ? 1024 : 16; }  // of shared memory: a swizzle of 128 bytes repeats after
                                                              // 8 rows
  std::string qualifier(Space space) const;
  std::string pointer_type(const Place& place) const;
  std::string tid() const {
    return !cuda_ ? "(int)get_local_id(0)" : grid_.together > 1 ? "(int)(threadIdx.x & 31u)" : "(int)threadIdx.x";
  }
  std::string group(int axis) const {
    return cuda_ ? fmt::format("blockIdx.{}", "xyz"[axis]) : fmt::format("get_group_id({})", axis);
  }
  std::string barrier() const {
    return !cuda_              ? "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
        : grid_.together > 1 ? "__syncwarp();"
                             : "__syncthreads();";
  }
  std::string combine(Aggregation how, DType type, const std::string& a, const std::string& b);
  void fold_tree(const Fold& x, DType type, const std::string& result, const std::string& value);
  void fold_warps(const Fold& x, DType type, const std::string& result, const std::string& value);
  void butterfly(const Fold& x, DType type, const std::string& result, std::int64_t lanes);
  bool by_warps() const { return cuda_ && threads_ % 32 == 0; }
  const std::string& fold_memory(DType type);

  Unit& unit_;
  Scalars& scalars_;
  Ptx ptx_;
  Speller speller_;
  const Loops& loops_;
  const Function& function_;
  bool cuda_, copies_, from_shared_;                   // some copies, and some products of shared memory, are
                                                       // asynchronous
  std::int64_t threads_;
  Grid grid_;
  Identifiers names_;
  Scope scope_;
  std::string body_, declarations_;                    // declarations_: shared memory, at the top of the kernel
  int depth_ = 1;
  bool in_thread_ = false, below_block_ = false, guarded_ = false;
  bool pooled_ = false;                                // shared arrays of siblings overlay each other, or exceed what a
                                                       // kernel may declare
  std::int64_t pool_used_ = 0;
  std::string pool_of_warp_;                           // where the part of this warp begins
  std::map<std::string, std::int64_t> registers_;      // of each array
  std::map<std::string, std::string> folds_;           // storage type → scratch array
};

}  // namespace tilec::codegen::simt
