// Any bytes as a .npy file, as a .npz archive, and as the member of an archive whose checksum is right: read, or
// refused with a RuntimeError. What was read is written and read back as the same bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/error.h"
#include "runtime/npy.h"
#include "runtime/zip.h"

using namespace tilec::runtime;

namespace {

std::string path_of(std::string_view bytes) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  return path;
}

void use(const Tensor& tensor) {
  if (tensor.count() > 1 << 16) return;
  const tilec::poly::Array array = to_array(tensor);
  const Tensor copy = convert("copy", tensor, tensor.dtype);
  const tilec::poly::Array again = to_array(copy);
  if (array.integers != again.integers || array.reals.size() != again.reals.size() ||
      (!array.reals.empty() && std::memcmp(array.reals.data(), again.reals.data(), 8 * array.reals.size()) != 0)) {
    bool same = array.integers == again.integers && array.reals.size() == again.reals.size();
    for (std::size_t n = 0; same && n < array.reals.size(); ++n)
      same = array.reals[n] == again.reals[n] || (array.reals[n] != array.reals[n] && again.reals[n] != again.reals[n]);
    if (!same) std::fprintf(stderr, "FUZZ: a copy differs\n"), std::abort();
  }
}

template <class F> void refused_or(F f) {
  try {
    f();
  } catch (const RuntimeError&) {
  }
}

void use_members(const std::string& path) {
  const Npz archive(path);
  for (std::size_t k = 0; k < archive.names().size(); ++k) use(archive.read(k));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  refused_or([&] { use(read_npy(path_of(bytes))); });
  refused_or([&] { use_members(path_of(bytes)); });
  const std::string archive = write_zip({{"A.npy", std::string(bytes)}, {"B", std::string(bytes.substr(size / 2))}});
  if (read_zip(archive, "archive").at(0).bytes != bytes)
    std::fprintf(stderr, "FUZZ: an archive reads back as another\n"), std::abort();
  refused_or([&] { use_members(path_of(archive)); });
  return 0;
}
