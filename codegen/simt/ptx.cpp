// PTX ISA, "cp.async", "ldmatrix", "mma", "wgmma".
#include "codegen/simt/ptx.h"

#include <fmt/format.h>

namespace tilec::codegen::simt {
namespace {

using lang::is_float;

// What PTX calls a type.
std::string word(DType type) {
  return is_float(type) ? std::string(lang::name(type))
                        : fmt::format("{}{}", lang::is_signed(type) ? "s" : "u", lang::bits(type));
}

std::string of_operand(const MatrixInstruction& i) { return i.operand == DType::F32 ? "tf32" : word(i.operand); }

}  // namespace

std::string Ptx::copy(DType t, std::int64_t count, bool some) {
  const std::int64_t bytes = count * lang::bytes(t);
  const char* cached = bytes == 16 ? "cg" : "ca";      // .cg takes 16 bytes alone
  const std::string there = some ? fmt::format("there * {}", lang::bytes(t)) : fmt::format("there ? {} : 0", bytes);
  return scalars_.helper(fmt::format("tc_copy_{}{}_{}", some ? "up_to_" : "", count, lang::name(t)), "void",
      fmt::format("{0}* to, const {0}* from, {1} there", scalars_.storage(t), some ? "int" : "bool"),
      fmt::format(
          "asm volatile(\"cp.async.{0}.shared.global [%0], [%1], %2, %3;\" :: \"l\"(__cvta_generic_to_shared(to)), \"l\"(from), \"n\"({1}), \"r\"({2}) : \"memory\");",
          cached, bytes, there));
}

std::string Ptx::fragment(DType registers, bool transposed) {
  if (registers == DType::F32)
    return scalars_.helper(transposed ? "tc_fragment_transposed_f32" : "tc_fragment_f32", "void", "float* r, const void* row",
        fmt::format("unsigned int u[4]; {}(u, row); for (int x = 0; x < 4; x++) r[x] = __uint_as_float(u[x]);",
            fragment(DType::U32, transposed)));
  return scalars_.helper(transposed ? "tc_fragment_transposed" : "tc_fragment", "void", "unsigned int* r, const void* row",
      fmt::format(
          "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4{}.shared.b16 {{%0, %1, %2, %3}}, [%4];\" : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"l\"(__cvta_generic_to_shared(row)) : \"memory\");",
          transposed ? ".trans" : ""));
}

// Three bf16 hold the 24 bits of an f32: each is what lies above the 16 lowest bits of what the ones before it leave.
// Of two, which hold an f16, each is what the one before it leaves, rounded.
std::string Ptx::pack(DType type, std::int64_t parts) {
  const std::string name = fmt::format("tc_pack_{}_{}", parts, lang::name(type)),
                    parameters = "unsigned int* r, int step, float low, float high";
  if (parts == 1)
    return scalars_.helper(name, "void", parameters,
        fmt::format("asm(\"cvt.rn.{}x2.f32 %0, %1, %2;\" : \"=r\"(r[0]) : \"f\"(high), \"f\"(low));", word(type)));
  if (parts == 2) {
    const std::string one = pack(type, 1);
    return scalars_.helper(name, "void", parameters,
        fmt::format(
            "{0}(&r[0], 0, low, high); {0}(&r[step], 0, low - __uint_as_float(r[0] << 16), high - __uint_as_float(r[0] & 0xffff0000u));",
            one));
  }
  std::string body;
  for (std::int64_t p = 0; p < parts; ++p)
    body += fmt::format(
        "r[{0} * step] = (__float_as_uint(low) >> 16) | (__float_as_uint(high) & 0xffff0000u); low -= __uint_as_float(__float_as_uint(low) & 0xffff0000u); high -= __uint_as_float(__float_as_uint(high) & 0xffff0000u); ",
        p);
  return scalars_.helper(name, "void", parameters, body);
}

std::string Ptx::exchange() {
  return scalars_.helper("tc_exchange", "void", "unsigned int* r",
      "const bool odd = (threadIdx.x & 1) != 0; const unsigned int got = __shfl_xor_sync(0xffffffffu, odd ? r[0] : r[1], 1); r[0] = odd ? got : r[0]; r[1] = odd ? r[1] : got;");
}

std::string Ptx::store_packed(DType type, std::int64_t words) {
  const char* word = words == 2 ? "unsigned long long" : "unsigned int";
  return scalars_.helper(fmt::format("tc_store_packed_{}_{}", words, lang::name(type)), "void",
      fmt::format("{}* to, const unsigned int* r", scalars_.storage(type)),
      fmt::format("*({0}*)__builtin_assume_aligned(to, {1}) = {2};", word, 4 * words,
          words == 2 ? "r[0] | (unsigned long long)r[1] << 32" : "r[0]"));
}

std::string Ptx::multiply(const MatrixInstruction& i) {
  const bool real = is_float(i.accumulator);
  const bool rounds = i.fragment() == DType::F32;
  std::string outputs, inputs;
  int next = 0;
  const auto list = [&](std::int64_t count) {
    std::string text;
    for (std::int64_t r = 0; r < count; ++r) text += fmt::format("{}%{}", r ? ", " : "", next++);
    return "{" + text + "}";
  };
  const std::string c = list(i.registers_of_c());
  const std::string a = list(i.registers_of_a()), b = list(i.registers_of_b());
  for (std::int64_t r = 0; r < i.registers_of_c(); ++r)
    outputs += fmt::format("{}\"+{}\"(c[{}])", r ? ", " : "", real ? "f" : "r", r);
  for (std::int64_t r = 0; r < i.registers_of_a(); ++r)
    inputs += fmt::format("{}\"r\"({}[{}])", r ? ", " : "", rounds ? "x" : "a", r);
  for (std::int64_t r = 0; r < i.registers_of_b(); ++r) inputs += fmt::format(", \"r\"({}[{}])", rounds ? "y" : "b", r);
  std::string rounding;
  if (rounds) {
    const std::string one = scalars_.tf32_bits();
    const auto all = [&](const char* to, const char* from, std::int64_t count) {
      rounding += fmt::format("unsigned int {}[{}]; ", to, count);
      for (std::int64_t r = 0; r < count; ++r) rounding += fmt::format("{0}[{3}] = {1}({2}[{3}]); ", to, one, from, r);
    };
    all("x", "a", i.registers_of_a()), all("y", "b", i.registers_of_b());
  }
  return scalars_.helper(fmt::format("tc_mma_{}_{}", i.shape, lang::name(i.operand)), "void",
      fmt::format("{0}* c, const {1}* a, const {1}* b", scalars_.type(i.accumulator), scalars_.type(i.fragment())),
      rounding +
          fmt::format("asm(\"mma.sync.aligned.{0}.row.col.{1}.{2}.{2}.{1} {3}, {4}, {5}, {3};\" : {6} : {7});", i.shape,
              word(i.accumulator), of_operand(i), c, a, b, outputs, inputs));
}

// PTX ISA, "Matrix descriptor": the address by 16, so many `pieces` behind `at`, the next panel by 16 from bit 16, the
// next eight rows by 16 from bit 32, the swizzle of 128 bytes from bit 62.
std::string Ptx::matrix() {
  return scalars_.helper("tc_matrix", "unsigned long long", "const void* at, int panel, unsigned int pieces",
      "return ((((unsigned int)(unsigned long long)__cvta_generic_to_shared(at) & 0x3ffff) >> 4 | (unsigned int)(panel >> 4) << 16) + pieces) | 64ull << 32 | 1ull << 62;");
}

std::string Ptx::multiply_shared(const MatrixInstruction& i, std::int64_t columns, std::optional<bool> a_transposed,
    bool b_transposed, bool begins) {
  const bool real = is_float(i.accumulator);
  const std::int64_t count = columns / i.n * i.registers_of_c(), of_a = a_transposed ? 1 : i.registers_of_a();
  std::string sums, list;
  for (std::int64_t r = 0; r < count; ++r) {
    sums += fmt::format("{}%{}", r ? ", " : "", r);
    list += fmt::format("{}\"{}{}\"(c[{}])", r ? ", " : "", begins ? "=" : "+", real ? "f" : "r", r);
  }
  // Only 16 bits are transposed; sums of bytes have no signs to choose.
  const bool turns = lang::bytes(i.operand) == 2;
  std::string ways = real ? ", 1, 1" : "", also, a, of_list;
  std::int64_t next = count + of_a + 2;
  const auto turned = [&](bool transposed) {
    ways += fmt::format(", %{}", next++), also += fmt::format(", \"n\"({:d})", transposed);
  };
  if (turns && a_transposed) turned(*a_transposed);
  if (turns) turned(b_transposed);
  for (std::int64_t r = 0; r < of_a; ++r) {
    a += fmt::format("{}%{}", r ? ", " : "", count + r);
    of_list += a_transposed ? std::string("\"l\"(a)") : fmt::format("{}\"r\"(a[{}])", r ? ", " : "", r);
  }
  if (!a_transposed) a = "{" + a + "}";
  const std::string shape = fmt::format(fmt::runtime(i.shape), columns),
                    of_a_name = a_transposed ? fmt::format("{:d}", *a_transposed) : "r";
  return scalars_.helper(fmt::format("tc_wgmma_{}_{}_{}{:d}{}", shape, lang::name(i.operand), of_a_name, b_transposed, begins ? "_first" : ""),
      "void",
      fmt::format("{}* c, {} a, unsigned long long b", scalars_.type(i.accumulator),
          a_transposed ? "unsigned long long" : "const unsigned int*"),
      fmt::format(
          "asm volatile(\"{{ .reg .pred p; setp.ne.b32 p, %{10}, 0; wgmma.mma_async.sync.aligned.{0}.{1}.{2}.{2} {{{3}}}, {4}, %{5}, p{6}; }}\" : {7} : {8}, \"l\"(b), \"n\"({11:d}){9});",
          shape, word(i.accumulator), of_operand(i), sums, a, count + of_a, ways,
          list, of_list, also, count + of_a + 1, !begins));
}

// What is read behind it is an operand of it, lest the compiler reads before.
std::string Ptx::await(DType t, std::int64_t registers, int pending) {
  std::string list;
  for (std::int64_t r = 0; r < registers; ++r)
    list += fmt::format("{}\"+{}\"(c[{}])", r ? ", " : "", is_float(t) ? "f" : "r", r);
  return scalars_.helper(
      fmt::format("tc_await_{}_{}{}", lang::name(t), registers, pending ? fmt::format("_but_{}", pending) : ""), "void",
      scalars_.type(t) + "* c",
      fmt::format("asm volatile(\"wgmma.wait_group.sync.aligned %{};\" : {} : \"n\"({}) : \"memory\");", registers, list,
          pending));
}

}  // namespace tilec::codegen::simt
