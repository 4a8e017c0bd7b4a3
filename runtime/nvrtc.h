// CUDA C++ → cubin or PTX by NVIDIA's run-time compiler, a library found when first needed. No GPU is needed.
//
//   compile_cuda("extern \"C\" __global__ void k(float* x) { x[0] = 1; }", "sm_90a").kernels[0].registers  ⇒  6
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"

namespace tilec::runtime {

// What the assembler (`ptxas -v`) says of one kernel. Spills are bytes of stores and loads in the text, not executed
// ones.
struct KernelStats {
  std::string name;
  int registers = 0;                                   // per thread
  int spill_stores = 0, spill_loads = 0, stack = 0;    // bytes per thread
  int shared = 0;                                      // bytes per block, without what is asked for at launch
};

struct CudaObject {
  std::string cubin;                                   // empty if only PTX was asked for
  std::string ptx;
  std::vector<KernelStats> kernels;                    // in the order of the log; empty for PTX
  std::string log;
};

enum class CudaOutput { Cubin, Ptx };

// `architecture`: sm_80, sm_90a … Faults are RuntimeErrors: E0524 when there is no NVRTC or it does not know the
// architecture, E0521 when it refuses the text, which is then saved to a file that the message names, E0522 when it
// fails.
CudaObject compile_cuda(
    const std::string& source, std::string_view architecture, CudaOutput output = CudaOutput::Cubin);

// Several texts, in as many threads as there are cores: NVRTC's time is linear in the text. No more texts are compiled
// at one time in the process.
std::vector<CudaObject> compile_cuda(
    const std::vector<std::string>& sources, std::string_view architecture, CudaOutput output = CudaOutput::Cubin);

int nvrtc_major();                                     // of the version that is found; 0: none is

// "NVRTC 13.0, /…/libnvrtc.so.13"; empty if there is none, and then `why` lists where it was looked for.
std::string nvrtc_library(std::string& why);

}  // namespace tilec::runtime
