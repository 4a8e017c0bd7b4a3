// cp.async, ldmatrix, mma and wgmma, written from the PTX ISA under these names; fragments and descriptors as
// docs/decisions/tensor_cores.md states them. What a cp.async copies is there when its thread has waited for its group,
// and what wgmma adds when that was waited for: not before.
#include "block.h"

#include <algorithm>
#include <cstring>

using namespace simulated;

SHOWN void simulated_copy(int line, const void* to, const void* from, int bytes, int there) {
  const auto n = static_cast<std::size_t>(bytes);
  Region* region = region_of(static_cast<const char*>(to), n);
  if (!region || !region->shared) return fault_at("cp.async to what is no shared memory of the launch", line);
  if (there < 0 || there > bytes || reinterpret_cast<Address>(from) % n)
    fault_at("cp.async of more than its bytes, or from an address that is not aligned", line);
  access_at(to, n, true, line);
  if (there == bytes) access_at(from, n, false, line);
  else for (int k = 0; k < there; ++k) access_at(static_cast<const char*>(from) + k, 1, false, line);
  // until it has come
  for (std::size_t k = 0; k < n; ++k)
    region->cells[static_cast<const char*>(to) - region->base + static_cast<std::ptrdiff_t>(k)].write = never;
  std::memset(const_cast<void*>(to), 0xff, n);
  fibers[running].open.push_back(
      {static_cast<char*>(const_cast<void*>(to)), static_cast<const char*>(from), bytes, there});
}

SHOWN void simulated_commit() { fibers[running].groups.push_back(std::exchange(fibers[running].open, {})); }

SHOWN void simulated_wait(int line, int newest) {
  std::deque<std::vector<Copy>>& groups = fibers[running].groups;
  for (; groups.size() > static_cast<std::size_t>(newest); groups.pop_front())
    for (const Copy& c : groups.front()) {
      access_at(c.to, static_cast<std::size_t>(c.bytes), true, line, false);
      std::memset(c.to, 0, static_cast<std::size_t>(c.bytes));
      if (c.there) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.there));
    }
}

// The address of row r of matrix q is what thread 8 q + r has. Thread 4 r + c gets bytes 4 c .. 4 c + 3 of row r of
// each matrix; transposed, the 16 bits in column r of rows 2 c and 2 c + 1.
SHOWN void simulated_fragments(int line, int transposed, unsigned* const* to, const void* row) {
  if (!region_of(static_cast<const char*>(row), 16)) fault_at("ldmatrix of what is no memory of the launch", line);
  access_at(row, 16, false, line);
  in_warp(line, ~0u, {reinterpret_cast<std::uint64_t>(row)});
  const unsigned r = running % 32 / 4, c = running % 4;
  for (unsigned q = 0; q < 4; ++q) {
    const auto at = [&](unsigned x) { return reinterpret_cast<const char*>(*of_lane(8 * q + x)); };
    if (!transposed) std::memcpy(to[q], at(r) + 4 * c, 4);
    else for (unsigned x = 0; x < 2; ++x) std::memcpy(reinterpret_cast<char*>(to[q]) + 2 * x, at(2 * c + x) + 2 * r, 2);
  }
}

namespace {

float of_f16(unsigned short x) {
  static const std::vector<float> all = [] {             // a conversion is a call, and there are many
    std::vector<float> numbers(1 << 16);
    for (unsigned bits = 0; bits < numbers.size(); ++bits) {
      const auto narrow = static_cast<unsigned short>(bits);
      _Float16 h;
      std::memcpy(&h, &narrow, 2);
      numbers[bits] = static_cast<float>(h);
    }
    return numbers;
  }();
  return all[x];
}
float of_bf16(unsigned short x) {
  const unsigned u = static_cast<unsigned>(x) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
template <class T> int of_byte(T x) { return x; }
float of_tf32(unsigned x) {
  if (x & 0x1fff) fault_at("mma of an operand that is not rounded to tf32", fibers[running].line);
  float f;
  std::memcpy(&f, &x, 4);
  return f;
}

// With g = lane / 4, t = lane % 4 and w operands in a register: register r of A has row g + 8 (r % 2), columns w t ..
// of the half r / 2 of k; register r of B rows w t .. of the half r of k, column g; register r of C row g + 8 (r / 2),
// column 2 t + r % 2.
template <class T, class C, C (*value)(T)> void multiply(void* const* c) {
  constexpr unsigned w = 4 / sizeof(T), half_k = 4 * w;
  const unsigned g = running % 32 / 4, t = running % 4;
  const auto element = [&](unsigned lane, unsigned word, unsigned in_word, unsigned at) {
    const auto bits = static_cast<unsigned>(of_lane(lane)[word] >> (32 * in_word));
    T x;
    std::memcpy(&x, reinterpret_cast<const char*>(&bits) + at * sizeof(T), sizeof(T));
    return value(x);
  };
  for (unsigned r = 0; r < 4; ++r)
    for (unsigned k = 0; k < 2 * half_k; ++k) {
      const unsigned half = k / half_k, thread = k % half_k / w, at = k % w;
      *static_cast<C*>(c[r]) +=
          element(4 * g + thread, half, r / 2, at) * element(4 * (2 * t + r % 2) + thread, 2, half, at);
    }
}

}  // namespace

SHOWN void simulated_multiply(int line, int type, void* const* c, const unsigned* a, const unsigned* b) {
  const auto pair = [](unsigned low, unsigned high) { return static_cast<std::uint64_t>(high) << 32 | low; };
  in_warp(line, ~0u, {pair(a[0], a[1]), pair(a[2], a[3]), pair(b[0], b[1])});
  if (type == 0) multiply<unsigned short, float, of_f16>(c);
  else if (type == 1) multiply<unsigned short, float, of_bf16>(c);
  else if (type == 2) multiply<signed char, int, of_byte<signed char>>(c);
  else if (type == 3) multiply<unsigned char, int, of_byte<unsigned char>>(c);
  else multiply<unsigned, float, of_tf32>(c);
}

// ---- wgmma

namespace {

// The matrix of a descriptor, which holds 18 bits of its address: a block's memory is smaller.
const char* begin_of(std::uint64_t descriptor, int line) {
  constexpr std::uint64_t window = 1 << 18;
  for (const Region* r : shared_regions()) {
    const auto base = reinterpret_cast<std::uintptr_t>(r->base);
    const std::uint64_t offset = ((descriptor & 0x3fff) * 16 - base) % window;
    if (offset < r->bytes) return r->base + offset;
  }
  fault_at("wgmma of what is no shared memory of the launch", line);
  return nullptr;
}

// Element (value, k) of a matrix whose rows of 128 bytes run along k, or, turned, along m or n: eight rows are 1024
// bytes, in which piece c of 16 bytes of row r lies at c ^ r. Turned, the next 128 bytes along m or n lie `panel` bytes
// on.
const char* in_shared(
    const char* at, std::uint64_t descriptor, bool turned, unsigned value, unsigned k, unsigned bytes) {
  const std::uint64_t panel = (descriptor >> 16 & 0x3fff) << 4, eight = (descriptor >> 32 & 0x3fff) << 4;
  const std::uint64_t row = turned ? k : value, in_row = static_cast<std::uint64_t>(turned ? value : k) * bytes;
  std::uint64_t address = reinterpret_cast<std::uintptr_t>(at) + row / 8 * eight + row % 8 * 128 +
      (turned ? in_row / 128 * panel : 0) + in_row % 128;
  address ^= (address >> 7 & 7) << 4;
  return reinterpret_cast<const char*>(address);
}

void check_descriptor(const char* at, std::uint64_t descriptor, bool turned, int line) {
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7)) fault_at("a descriptor without the swizzle of 128 bytes", line);
  if (!turned && reinterpret_cast<std::uintptr_t>(at) % 128 + 32 > 128)
    fault_at("a matrix whose k leaves its rows of 128 bytes", line);
}

unsigned bytes_of(int type) { return type < 2 ? 2 : type < 4 ? 1 : 4; }

// Threads share the pieces of 16 bytes among themselves. Each is read by nobody in particular, when it is asked for and
// again when it was waited for: between, nobody may write it.
void look(const Product& p, bool again) {
  const unsigned bytes = bytes_of(p.type), group = running / 128;
  const auto matrix = [&](const char* at, std::uint64_t of, bool turned, unsigned values, const char* name) {
    const unsigned k = 32 / bytes, in_piece = 16 / bytes, in_row = turned ? values / in_piece : 2;
    for (unsigned piece = running % 128; piece < (turned ? k : values) * in_row; piece += 128) {
      const unsigned along = piece % in_row * in_piece, row = piece / in_row;
      const char* const begin = in_shared(at, of, turned, turned ? along : row, turned ? row : along, bytes);
      Region* const region = region_of(begin, 16);
      if (!region || !region->shared)
        return fault_at(text("wgmma reads ", name, " outside of the shared memory of the launch"), p.line);
      for (auto byte = begin - region->base, end = byte + 16; byte < end; ++byte) {
        Cell& c = region->cells[byte];
        const auto where = [&] { return text(", at byte ", byte, " of ", region->name); };
        if (again && c.write > p.asked) fault_at("a write of what wgmma still reads" + where(), p.line);
        if (c.write < block_start) fault_at("wgmma reads what nobody has written" + where(), p.line);
        if (const char* words = raced(c, false, true, static_cast<std::uint16_t>(0x2000 | group)))
          fault_at(text("a race, ", words, where()), p.line);
        if (c.writer < most_threads && fibers[c.writer].unfenced <= c.write)
          fault_at("wgmma reads what was written without fence.proxy.async behind it" + where(), p.line);
      }
    }
  };
  if (p.a) matrix(p.a, p.of_a, p.a_turned, 64, "A");
  matrix(p.b, p.of_b, p.b_turned, p.columns, "B");
}

// Element k of row h of a thread whose A is in registers: they are those of `mma`.
template <class T> T in_fragment(const Product& p, unsigned h, unsigned k) {
  constexpr unsigned w = 4 / sizeof(T), half_k = 4 * w;
  const unsigned in = p.fragment[k % half_k / w * 4 + k / half_k * 2 + h];
  T x;
  std::memcpy(&x, reinterpret_cast<const char*>(&in) + k % w * sizeof(T), sizeof(T));
  return x;
}

// What a thread of four warps has of 64 x N: register 4 j + 2 h + e is row 16 w + g + 8 h, column 8 j + 2 t + e.
template <class T, class C, C (*value)(T)> void add(const Product& p) {
  constexpr unsigned k = 32 / sizeof(T);
  const unsigned g = running % 32 / 4, t = running % 4, w = running % 128 / 32;
  const auto line = [&](const char* at, std::uint64_t of, bool turned, unsigned x, C* to) {
    const char* from = nullptr;
    for (unsigned y = 0; y < k; ++y) {
      T one;
      if (turned || y % (16 / sizeof(T)) == 0) from = in_shared(at, of, turned, x, y, sizeof(T));
      else from += sizeof(T);                          // in the same piece
      std::memcpy(&one, from, sizeof(T));
      to[y] = value(one);
    }
  };
  C a[2][k], b[k];
  for (unsigned h = 0; h < 2; ++h)
    if (p.a) line(p.a, p.of_a, p.a_turned, 16 * w + g + 8 * h, a[h]);
    else for (unsigned y = 0; y < k; ++y) a[h][y] = value(in_fragment<T>(p, h, y));
  for (unsigned column = 0; column < p.columns / 4; ++column) {
    line(p.b, p.of_b, p.b_turned, column / 2 * 8 + 2 * t + column % 2, b);
    for (unsigned h = 0; h < 2; ++h) {
      C& sum = *static_cast<C*>(p.sums[column / 2 * 4 + 2 * h + column % 2]);
      if (!p.adds) sum = 0;
      for (unsigned y = 0; y < k; ++y) sum += a[h][y] * b[y];
    }
  }
}

void add(const Product& p) {
  if (p.type == 0) add<unsigned short, float, of_f16>(p);
  else if (p.type == 1) add<unsigned short, float, of_bf16>(p);
  else if (p.type == 2) add<signed char, int, of_byte<signed char>>(p);
  else if (p.type == 3) add<unsigned char, int, of_byte<unsigned char>>(p);
  else add<unsigned, float, of_tf32>(p);
}

}  // namespace

SHOWN void simulated_proxy_fence() { fibers[running].unfenced = nothing; }

SHOWN void simulated_products_fence() { fibers[running].fenced = true; }

SHOWN void simulated_product(int line, int type, unsigned columns, void* const* sums, const unsigned* fragment,
    unsigned long long a, unsigned long long b, int adds, int a_turned, int b_turned) {
  Fiber& f = fibers[running];
  const auto pair = [](unsigned low, unsigned high) { return static_cast<std::uint64_t>(high) << 32 | low; };
  if (fragment) in_warp(line, ~0u, {a, b, pair(fragment[0], fragment[1]), pair(fragment[2], fragment[3])});
  else in_warp(line, ~0u, {a, b});
  if (of_lane(0)[0] != a || of_lane(0)[1] != b) fault_at("wgmma whose threads have different descriptors", line);
  if (!f.fenced) fault_at("wgmma without wgmma.fence before it", line);
  Product p{fragment ? nullptr : begin_of(a, line), begin_of(b, line), a, b, adds != 0, a_turned != 0, b_turned != 0,
      type, line, columns, epoch, {}, {}};
  if (p.a) check_descriptor(p.a, a, p.a_turned, line);
  check_descriptor(p.b, b, p.b_turned, line);
  std::copy(sums, sums + columns / 2, p.sums.begin());
  for (unsigned thread = 0; fragment && thread < 4; ++thread)
    for (unsigned r = 0; r < 4; ++r)
      p.fragment[thread * 4 + r] =
          static_cast<unsigned>(of_lane(running % 32 / 4 * 4 + thread)[2 + r / 2] >> (r % 2 * 32));
  look(p, false);
  if (at_once) add(p);
  f.started.push_back(p);
}

SHOWN void simulated_products_commit() {
  Fiber& f = fibers[running];
  f.products.push_back(std::exchange(f.started, {}));
  f.fenced = false;
}

SHOWN void simulated_products_wait(int newest) {
  Fiber& f = fibers[running];
  for (; f.products.size() > static_cast<std::size_t>(newest); f.products.pop_front())
    for (const Product& p : f.products.front()) {
      look(p, true);
      if (!at_once) add(p);
    }
}
