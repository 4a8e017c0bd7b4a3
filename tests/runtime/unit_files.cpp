// Tensors, NumPy files and zip archives: what has no text form.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "runtime/error.h"
#include "runtime/npy.h"
#include "runtime/zip.h"

using namespace tilec::runtime;
namespace fs = std::filesystem;

namespace {

struct Folder {
  std::string path = "/tmp/tilec-files-XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

tilec::poly::Array counted(DType dtype, const std::vector<std::int64_t>& shape) {
  tilec::poly::Array array{dtype, shape, {}, {}};
  for (std::int64_t n = 0; n < array.count(); ++n) {
    if (tilec::lang::is_float(dtype)) array.reals.push_back(static_cast<double>(n) / 4);
    else array.integers.push_back(dtype == DType::Bool ? n % 2 : n);
  }
  return array;
}

std::string code_of(auto read) {
  try {
    read();
  } catch (const RuntimeError& fault) {
    return fault.diagnostic.code;
  }
  return "";
}

}  // namespace

TEST_CASE("every type survives a file") {
  const Folder folder;
  for (const DType dtype : tilec::lang::all_dtypes) {
    for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{}, {0}, {3}, {2, 3, 4}}) {
      const tilec::poly::Array array = counted(dtype, shape);
      const Tensor tensor = allocate("x", dtype, shape);
      from_array(array, tensor);
      write_npy(folder / "x.npy", tensor);
      const Tensor back = read_npy(folder / "x.npy");
      CHECK(back.shape == shape);
      CHECK(back.dtype == (dtype == DType::BF16 ? DType::F32 : dtype));
      const tilec::poly::Array again = to_array(back);
      CHECK(again.reals == array.reals);
      CHECK(again.integers == array.integers);
    }
  }
}

TEST_CASE("halves and bfloats keep their edges") {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    const double least = dtype == DType::F16 ? 0x1p-24 : 0x1p-133, most = dtype == DType::F16 ? 65504 : 0x1.fep127;
    const tilec::poly::Array array{dtype, {6}, {least, -most, HUGE_VAL, -0.0, 1.5, std::nan("")}, {}};
    const Tensor tensor = allocate("x", dtype, {6});
    from_array(array, tensor);
    const tilec::poly::Array back = to_array(tensor);
    for (std::size_t n = 0; n < 5; ++n) CHECK(back.reals[n] == array.reals[n]);
    CHECK(std::signbit(back.reals[3]));
    CHECK(std::isnan(back.reals[5]));
  }
}

TEST_CASE("a view with negative and zero strides is read in its own order") {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const Tensor backwards{data + 5, DType::F32, {2, 3}, {-3, -1}, {kDLCPU, 0}, nullptr};
  CHECK(to_array(backwards).reals == std::vector<double>{5, 4, 3, 2, 1, 0});
  const Tensor spread{data + 2, DType::F32, {2, 2}, {0, 0}, {kDLCPU, 0}, nullptr};
  CHECK(to_array(spread).reals == std::vector<double>{2, 2, 2, 2});
  CHECK_FALSE(backwards.is_row_major());
}

TEST_CASE("archives come back, stored") {
  const Folder folder;
  const Tensor a = allocate("a", DType::I32, {5}), b = allocate("b", DType::F64, {2, 2});
  from_array(counted(DType::I32, {5}), a);
  from_array(counted(DType::F64, {2, 2}), b);
  write_npz(folder / "x.npz", {{"a", a}, {"b", b}});
  const auto members = read_npz(folder / "x.npz");
  REQUIRE(members.size() == 2);
  CHECK(members[1].first == "b");
  CHECK(to_array(members[1].second).reals == to_array(b).reals);
}

TEST_CASE("a file that ends anywhere is a named fault, never a crash") {
  const Folder folder;
  const Tensor tensor = allocate("x", DType::F32, {4, 4});
  from_array(counted(DType::F32, {4, 4}), tensor);
  write_npy(folder / "x.npy", tensor);
  write_npz(folder / "x.npz", {{"x", tensor}});
  for (const char* name : {"x.npy", "x.npz"}) {
    const std::string whole = read_text(folder / name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      write_atomically(folder / "cut", whole.substr(0, length));
      const std::string code = code_of([&] { name[3] == 'y' ? static_cast<void>(read_npy(folder / "cut")) : static_cast<void>(read_npz(folder / "cut")); });
      CHECK_MESSAGE((code == "E0503" || code == "E0504" || code == "E0506" || code == "E0508"), name << " cut at " << length << " gives " << code);
    }
  }
}

TEST_CASE("a damaged byte is a fault or another value, never a crash") {
  const Folder folder;
  const Tensor tensor = allocate("x", DType::F32, {4});
  from_array(counted(DType::F32, {4}), tensor);
  write_npz(folder / "x.npz", {{"x", tensor}});
  const std::string whole = read_text(folder / "x.npz");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    write_atomically(folder / "bad.npz", damaged);
    static_cast<void>(code_of([&] { static_cast<void>(read_npz(folder / "bad.npz")); }));
  }
}

TEST_CASE("what cannot be written leaves nothing behind") {
  const Folder folder;
  CHECK(code_of([&] { write_atomically(folder / "none/x.npy", "bytes"); }) == "E0502");
  CHECK(code_of([&] { write_atomically(folder.path, "bytes"); }) == "E0502");
  write_atomically(folder / "x", "old");
  write_atomically(folder / "x", "new");
  CHECK(read_text(folder / "x") == "new");
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
}

TEST_CASE("sizes beyond 63 bits and memory that is not there have names") {
  CHECK(code_of([] { static_cast<void>(byte_count("x", DType::F32, {1LL << 40, 1LL << 30})); }) == "E0513");
  CHECK(code_of([] { static_cast<void>(allocate("x", DType::F32, {1LL << 60})); }) == "E0512");
  CHECK(byte_count("x", DType::F32, {0, 1LL << 60}) == 0);
}
