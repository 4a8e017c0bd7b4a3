// Measured with `./dev bench --model` on an AMD EPYC of Zen 4 (family 25, model 17; virtual, 2 cores, caches of 32 KiB,
// 1 MiB and 32 MiB); the others from the vendors' optimisation guides, and from Agner Fog's instruction tables
// (agner.org/optimize).
#include "codegen/model/machine.h"

#include <string_view>

#include "codegen/model/estimates.h"

namespace tilec::codegen::model {

namespace {

// Pages of 4 KiB: a line each of 2,205 took 54 cycles, and 27 where pages are of 2 MiB; of 4,096, from the last cache,
// 45 and 18. With 27 in the place of 10, 13 of 2,250 rows of the scan became 1.24 times as fast (0.81 to 3.0). 16
// elements that are stored one by one take 55 cycles: with 3 for each in the place of 1, 30 of 2,250 rows became 1.04
// times as fast. Lines of the second cache come in 2.5 cycles each of a stream, in 3.9 each from a page of its own: 45
// of 1,350 rows took what they took in the mean, the slowest of a seed 8.8 ms instead of 14.1. 64 MB times a vector by
// 8 rows of 2,000 to 16,000 f32 side by side: 6 to 7 cycles a line, what the second and last cache add included. What
// such lines take less is measured here alone; for other machines it is taken to be a third of a line or more.
constexpr Machine zen4_512{.name = "Zen 4, 512 bits",
    .gigahertz = 3.7,
    .pipe = 32,
    .arithmetic = 64,
    .loads = 64,
    .stores = 32,
    .step = 4,
    .unhidden = 0.05,
    .exposed = 0,
    .gathered = 1.0,
    .scattered = 3.0,
    .l2 = {2.2, 1.7},
    .l3 = {3.0, 10},
    .memory = {9, 20, 12, 4.5},
    .back = 1,
    .near = {72, 1},
    .far = {3072, 27},
    .asked = 0.35,
    .launch = 300,
    .turn = 100,
    .masks = true};
constexpr Machine zen4_256{.name = "Zen 4, 256 bits",
    .gigahertz = 3.7,
    .pipe = 32,
    .arithmetic = 64,
    .loads = 64,
    .stores = 32,
    .step = 4,
    .unhidden = 0.05,
    .exposed = 0,
    .gathered = 1.0,
    .scattered = 3.0,
    .l2 = {2.2, 1.7},
    .l3 = {3.0, 10},
    .memory = {9, 20, 12, 4.5},
    .back = 1,
    .near = {72, 1},
    .far = {3072, 27},
    .asked = 0.35,
    .launch = 300,
    .turn = 100,
    .masks = false};
// AMD 58455: four pipes, of 512 bits, two of them multiply. Memory, caches and pages measured on an AMD EPYC (family
// 26, model 2; virtual, 2 cores, caches of 48 KiB, 1 MiB, 32 MiB): 128 MB are read in 6.6 cycles a line by up to 8
// streams, in 13 to 15 by 16 to 512 in runs of 4 to 64 lines, in 22 to 31 in runs of one, in 26 to 45 by sums whose
// every step is on another page; written in 8.1; a line of each of 2,000 pages takes what 32 take, of 6,000 3 to 4
// cycles more, of 16,000 9. Streams hide that pages are not in the first list, sums do not: a number of each of 336
// rows a step, 6.5 kB apart, from the second cache, takes 1 cycle more than from rows beside each other. With 1 in the
// place of 0, 126 of 3,150 rows of the scan became 1.065 times as fast, with 1.5 another 86 of 4,050 1.036 times; 2
// gains as much in all, with more rows that lose. Runs that are asked for begin in 0.2 of the time: 184 of 7,650 rows
// of the scan became 1.043 times as fast as with 0.35; with 0.55, 90 of 3,150 took 1.055 times as long.
constexpr Machine zen5{.name = "Zen 5",
    .gigahertz = 4.0,
    .pipe = 64,
    .arithmetic = 128,
    .loads = 128,
    .stores = 64,
    .step = 4,
    .unhidden = 0.1,
    .exposed = 0,
    .gathered = 1.0,
    .scattered = 1.0,
    .l2 = {1.7, 0},
    .l3 = {3.0, 2},
    .memory = {7, 16, 7, 3},
    .back = 0.2,
    .near = {96, 1.5},
    .far = {4096, 8},
    .asked = 0.2,
    .launch = 300,
    .turn = 100,
    .masks = true};
// Pages: sums that go from page to page of 15 to 50 MB, a line or less of each, take 29 to 32 cycles a page on an Intel
//        Xeon (virtual); of 200 pages
// 7 to 8, of which most is hidden. Of Zen 4 they are from its manual, and cycles measured: see there.
// Intel 248966: ports 0 and 5 multiply 512 bits, ports 2 and 3 load them.
constexpr Machine intel_512{.name = "Intel, 512 bits",
    .gigahertz = 3.6,
    .pipe = 64,
    .arithmetic = 128,
    .loads = 128,
    .stores = 64,
    .step = 4,
    .unhidden = 0.25,
    .exposed = 0.3,
    .gathered = 0.6,
    .scattered = 0.6,
    .l2 = {2.5, 0},
    .l3 = {8.0, 6},
    .memory = {15, 40, 16, 5},
    .back = 1,
    .near = {72, 3},
    .far = {1536, 30},
    .asked = 0.35,
    .launch = 300,
    .turn = 100,
    .masks = true};
constexpr Machine x86_256{.name = "x86-64, 256 bits",
    .gigahertz = 3.5,
    .pipe = 32,
    .arithmetic = 64,
    .loads = 64,
    .stores = 32,
    .step = 4,
    .unhidden = 0.05,
    .exposed = 0,
    .gathered = 1.2,
    .scattered = 1.2,
    .l2 = {2.2, 0},
    .l3 = {5.0, 4},
    .memory = {12, 25, 14, 4},
    .back = 1,
    .near = {64, 3},
    .far = {1536, 30},
    .asked = 0.35,
    .launch = 300,
    .turn = 100,
    .masks = false};
constexpr Machine x86_128{.name = "x86-64, 128 bits",
    .gigahertz = 3.5,
    .pipe = 16,
    .arithmetic = 32,
    .loads = 32,
    .stores = 16,
    .step = 4,
    .unhidden = 0.05,
    .exposed = 0,
    .gathered = 1.5,
    .scattered = 1.5,
    .l2 = {2.2, 0},
    .l3 = {5.0, 4},
    .memory = {12, 25, 14, 4},
    .back = 1,
    .near = {64, 3},
    .far = {1536, 30},
    .asked = 0.35,
    .launch = 300,
    .turn = 100,
    .masks = false};
// Arm PJDOC-466751330-9707 (Neoverse N1): two pipes of 128 bits, two loads.
constexpr Machine neon{.name = "AArch64, 128 bits",
    .gigahertz = 3.0,
    .pipe = 16,
    .arithmetic = 32,
    .loads = 32,
    .stores = 16,
    .step = 4,
    .unhidden = 0.05,
    .exposed = 0,
    .gathered = 1.5,
    .scattered = 1.5,
    .l2 = {2.2, 0},
    .l3 = {6.0, 4},
    .memory = {14, 30, 16, 5},
    .back = 1,
    .near = {64, 3},
    .far = {1536, 30},
    .asked = 0.35,
    .launch = 300,
    .turn = 100,
    .masks = false};

// Cycles of Zen 4 for 64 bytes of arguments that lie in the second cache, less what it takes to fetch them. f16 and
// bf16 are computed in f32.
struct Cycles { double f32_masks, f64_masks, f32, f64; };
constexpr Cycles cycles_of(lang::Op op) {
  using enum lang::Op;
  switch (op) {
    case Exp: return {14, 24, 37, 64};
    case Log: return {23, 41, 48, 74};
    case Tanh: return {29, 35, 70, 72};
    case Erf: return {40, 212, 93, 210};
    case Sigmoid: return {18, 45, 64, 90};
    case Sin: return {24, 32, 47, 69};
    case Cos: return {27, 38, 48, 71};
    case Tan: return {87, 360, 143, 360};
    case Sinh: case Cosh: return {128, 475, 244, 455};
    case Asin: case Acos: return {89, 310, 122, 350};
    case Atan: return {49, 290, 79, 290};
    case Asinh: case Acosh: return {117, 570, 208, 630};
    case Atanh: return {100, 700, 186, 690};
    case Pow: return {180, 545, 340, 545};
    case Atan2: return {1540, 725, 1520, 725};
    case Div: case Recip: return {9, 11, 8, 11};
    case Sqrt: return {12, 18, 10, 18};
    // one instruction or a few
    case Add: case Sub: case Mul: case Neg: case Fma: case Abs: case Max: case Min: case Relu: case Sign:
    case Eq: case Ne: case Lt: case Le: case Gt: case Ge: case Select: case IsNan: case IsFinite: case Between:
    case Tf32:
    case And: case Or: case Xor: case Not: case Shl: case Shr:
    case Ceil: case Floor: case Round: case Trunc:
    case Mod: break;                                   // not measured
  }
  return {1, 1, 1, 1};
}

bool is_intel(std::string_view arch) {
  for (const std::string_view name : {"skylake", "cascadelake", "cooperlake", "icelake", "tigerlake", "sapphirerapids",
           "emeraldrapids", "graniterapids", "cannonlake", "rocketlake"})
    if (arch.starts_with(name)) return true;
  return false;
}

}  // namespace

const Machine* machine_of(const Target& target) {
  if (target.family != Target::Family::Cpu) return nullptr;
  if (target.triple.starts_with("aarch64")) return &neon;
  const std::string_view arch = target.arch;
  if (target.vector_bytes == 64) return arch == "znver5" ? &zen5 : is_intel(arch) ? &intel_512 : &zen4_512;
  if (target.vector_bytes == 32) return arch.starts_with("x86-64") || arch.starts_with("znver") ? &zen4_256 : &x86_256;
  return &x86_128;
}

double operations_of(lang::Op op, lang::DType type, const Machine& machine) {
  const Cycles cycles = cycles_of(op);
  const bool wide = type == lang::DType::F64;
  return machine.masks ? (wide ? cycles.f64_masks : cycles.f32_masks) : wide ? cycles.f64 : cycles.f32;
}

int rough_operations_of(lang::Op op) {
  using enum lang::Op;
  switch (op) {
    case Exp: case Log: case Tanh: case Erf: case Sigmoid: return 14;
    case Sin: case Cos: return 20;
    case Tan: case Sinh: case Cosh: case Asin: case Acos: case Atan: case Asinh: case Acosh: case Atanh: case Atan2:
    case Pow: return 50;
    case Div: case Recip: case Sqrt: return 6;
    default: return static_cast<int>(cycles_of(op).f32_masks);
  }
}

}  // namespace tilec::codegen::model
