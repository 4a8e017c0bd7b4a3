// Tensors, NumPy files and zip archives: what has no text form.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/error.h"
#include "runtime/file.h"
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

// Every member, unpacked and dropped.
void read_members(const std::string& path) {
  const Npz archive(path);
  for (std::size_t k = 0; k < archive.names().size(); ++k) static_cast<void>(archive.read(k));
}

std::size_t files_in(const Folder& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()));
}
struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status;
}

// In a child, so that limits, users and signals are its own. What it returns is the exit status; -SIGNAL where one
// ended it.
int in_child(auto work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = work();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
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
  const Npz archive(folder / "x.npz");
  REQUIRE(archive.names() == std::vector<std::string>{"a", "b"});
  CHECK(to_array(archive.read(1)).reals == to_array(b).reals);
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
      write_file(folder / "cut", whole.substr(0, length));
      const std::string code =
          code_of([&] { name[3] == 'y' ? static_cast<void>(read_npy(folder / "cut")) : read_members(folder / "cut"); });
      CHECK_MESSAGE((code == "E0503" || code == "E0504" || code == "E0506" || code == "E0508"),
          name << " cut at " << length << " gives " << code);
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
    write_file(folder / "bad.npz", damaged);
    static_cast<void>(code_of([&] { read_members(folder / "bad.npz"); }));
  }
}

TEST_CASE("what cannot be written leaves nothing behind") {
  const Folder folder;
  CHECK(code_of([&] { write_file(folder / "none/x.npy", "bytes"); }) == "E0502");
  CHECK(code_of([&] { write_file(folder.path, "bytes"); }) == "E0502");
  write_file(folder / "x", "old");
  write_file(folder / "x", "new");
  CHECK(read_text(folder / "x") == "new");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a link stays, and what it leads to is written, also when nothing is there yet") {
  const Folder folder;
  REQUIRE(::mkdir((folder / "far").c_str(), 0777) == 0);
  write_file(folder / "far/x", "old");
  fs::create_symlink("far/x", folder / "link");
  fs::create_symlink("link", folder / "link_to_link");
  fs::create_symlink("far/new", folder / "dangling");
  write_file(folder / "link_to_link", "new");
  write_file(folder / "dangling", "made");
  CHECK(fs::is_symlink(folder / "link_to_link"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_text(folder / "far/x") == "new");
  CHECK(read_text(folder / "far/new") == "made");
  fs::create_symlink("round", folder / "round");
  CHECK(code_of([&] { write_file(folder / "round", "x"); }) == "E0502");
}

TEST_CASE("all names of a file see what is written, longer or shorter") {
  const Folder folder;
  write_file(folder / "x", "old and long");
  fs::create_hard_link(folder / "x", folder / "y");
  for (const std::string& text : {std::string("short"), std::string(), std::string("longer than it has ever been")}) {
    write_file(folder / "x", text);
    CHECK(read_text(folder / "y") == text);
    CHECK(status_of(folder / "x").st_ino == status_of(folder / "y").st_ino);
  }
  CHECK(files_in(folder) == 2);
}

TEST_CASE("permissions stay, and a new file has those of the mask") {
  const Folder folder;
  write_file(folder / "x", "old");
  REQUIRE(::chmod((folder / "x").c_str(), 0640) == 0);
  write_file(folder / "x", "new");
  CHECK((status_of(folder / "x").st_mode & 07777) == 0640);
  const mode_t mask = ::umask(027);
  write_file(folder / "y", "new");
  ::umask(mask);
  CHECK((status_of(folder / "y").st_mode & 07777) == 0640);
}

TEST_CASE("of another user: what may be written is, in place; the rest is refused and stays") {
  if (::geteuid() != 0) return;                          // only root can become another
  const Folder folder;
  for (const char* name : {"open", "closed"}) write_file(folder / name, "old");
  REQUIRE(::chmod((folder / "open").c_str(), 0666) == 0);
  REQUIRE(::chmod(folder.path.c_str(), 0755) == 0);      // takes no new file from others
  const int status = in_child([&] {
    if (::setuid(65534) != 0) return 1;
    write_file(folder / "open", "new");
    if (code_of([&] { write_file(folder / "closed", "new"); }) != "E0502") return 2;
    if (code_of([&] { write_file(folder / "fresh", "new"); }) != "E0502") return 3;
    return 0;
  });
  CHECK(status == 0);
  CHECK(read_text(folder / "open") == "new");
  CHECK(read_text(folder / "closed") == "old");
  CHECK(status_of(folder / "open").st_uid == 0);
  REQUIRE(::chmod(folder.path.c_str(), 0777) == 0);      // new ones, but none that is root's
  CHECK(in_child([&] { return ::setuid(65534) != 0 ? 1 : (write_file(folder / "open", "newer"), 0); }) == 0);
  CHECK(status_of(folder / "open").st_uid == 0);
  CHECK(read_text(folder / "open") == "newer");
  CHECK(files_in(folder) == 2);
}

TEST_CASE("a file that may not grow is an error, and what was there stays") {
  for (const bool linked : {false, true}) {
    const Folder folder;
    write_file(folder / "x", "old");
    if (linked) fs::create_hard_link(folder / "x", folder / "y");
    const int status = in_child([&] {
      const rlimit limit{1 << 16, 1 << 16};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
      return code_of([&] { write_file(folder / "x", std::string(1 << 20, 'n')); }) == "E0502" ? 0 : 2;
    });
    CHECK(status == 0);
    CHECK(read_text(folder / "x") == "old");
    CHECK(files_in(folder) == (linked ? 2 : 1));
  }
}

TEST_CASE("a signal ends the process, and leaves the whole old file or the whole new one, and no other") {
  const std::string text(8 << 20, 'n');
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    for (const bool linked : {false, true}) {
      const Folder folder;
      write_file(folder / "x", "old");
      if (linked) fs::create_hard_link(folder / "x", folder / "y");
      const pid_t child = ::fork();
      if (child == 0) {
        for (const int each : {SIGTERM, SIGINT, SIGHUP}) ::signal(each, SIG_DFL);  // not doctest's
        for (;;) write_file(folder / "x", text);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      REQUIRE(::kill(child, signal) == 0);
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      CHECK(WIFSIGNALED(status));
      CHECK(files_in(folder) == (linked ? 2 : 1));
      const std::string left = fs::file_size(folder / "x") == 3 ? "old" : text;
      CHECK(fs::file_size(folder / "x") == left.size());
    }
}

TEST_CASE("a full disk is an error, of devices too") {
  CHECK(code_of([] { write_file("/dev/full", "bytes"); }) == "E0502");
  CHECK(code_of([] { write_file("/dev/null", "bytes"); }) == "");
}

TEST_CASE("a descriptor that is open takes the bytes where it stands") {
  const Folder folder;
  const int file = ::open((folder / "x").c_str(), O_RDWR | O_CREAT, 0666);
  REQUIRE(::write(file, "first ", 6) == 6);
  write_file("/dev/fd/" + std::to_string(file), "second");
  write_file("/proc/self/fd/" + std::to_string(file), " third");
  fs::create_symlink("/dev/fd/" + std::to_string(file), folder / "link");
  write_file(folder / "link", " fourth");
  ::close(file);
  CHECK(read_text(folder / "x") == "first second third fourth");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  write_file("/dev/fd/" + std::to_string(ends[1]), "through a pipe");
  ::close(ends[1]);
  CHECK(read_text("/dev/fd/" + std::to_string(ends[0])) == "through a pipe");
  ::close(ends[0]);
}

TEST_CASE("only files are read, at once and as far as they are sane") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  write_file(folder / "large", "");
  REQUIRE(::truncate((folder / "large").c_str(), 1LL << 42) == 0);
  for (const std::string& path : {folder / "pipe", folder.path, std::string("/dev/zero"), std::string("/proc/self/mem"),
           folder / "none", folder / "large"}) {
    CHECK_MESSAGE(code_of([&] { static_cast<void>(read_text(path)); }) == "E0501", path);
    CHECK_MESSAGE(code_of([&] { static_cast<void>(read_regular_text(path)); }) == "E0501", path);
    const std::string npy = code_of([&] { static_cast<void>(read_npy(path)); }),
                      npz = code_of([&] { read_members(path); });
    CHECK_MESSAGE(npy == (path == folder / "large" ? "E0503" : "E0501"), path);
    CHECK_MESSAGE(npz == (path == folder / "large" ? "E0506" : "E0501"), path);
  }
}

TEST_CASE("of a .npy as much is read as its header promises, and a .npz fits the memory") {
  const Folder folder;
  const Tensor tensor = allocate("x", DType::F32, {4, 4});
  from_array(counted(DType::F32, {4, 4}), tensor);
  write_npy(folder / "x.npy", tensor);
  write_npz(folder / "x.npz", {{"x", tensor}});
  for (const char* name : {"x.npy", "x.npz"}) REQUIRE(::truncate((folder / name).c_str(), 1LL << 42) == 0);
  CHECK(to_array(read_npy(folder / "x.npy")).reals == to_array(tensor).reals);
  CHECK(code_of([&] { read_members(folder / "x.npz"); }) == "E0512");
}

TEST_CASE("an output is no input and no other output, by whatever name") {
  const Folder folder;
  write_file(folder / "x", "bytes");
  fs::create_hard_link(folder / "x", folder / "hard");
  fs::create_symlink("x", folder / "soft");
  fs::create_symlink("new", folder / "dangling");
  for (const char* name : {"x", "hard", "soft", "./x", "soft"}) {
    Files files;
    files.reads(folder / "x");
    CHECK(code_of([&] { files.writes(folder / name); }) == "E0532");
    CHECK(code_of([&] { files.writes(folder / "other"); }) == "");
  }
  for (const auto& [one, two] : std::vector<std::pair<const char*, const char*>>{
           {"x", "hard"}, {"x", "soft"}, {"new", "./new"}, {"new", "dangling"}, {"dangling", "../"}}) {
    Files files;
    files.writes(folder / one);
    const std::string other = std::string(two) == "../"
        ? folder / ("../" + fs::path(folder.path).filename().string() + "/new")
        : folder / two;
    CHECK(code_of([&] { files.writes(other); }) == "E0533");
  }
  Files files;                                           // what has no contents of its own takes any number
  files.reads("/dev/null");
  files.writes("/dev/null");
  files.writes("/dev/null");
}

TEST_CASE("sizes beyond 63 bits and memory that is not there have names") {
  CHECK(code_of([] { static_cast<void>(byte_count("x", DType::F32, {1LL << 40, 1LL << 30})); }) == "E0513");
  CHECK(code_of([] { static_cast<void>(allocate("x", DType::F32, {1LL << 60})); }) == "E0512");
  // All the memory of this machine is not free, though Linux would promise it and kill who uses it.
  CHECK(code_of([] {
    static_cast<void>(
        allocate("x", DType::U8, {static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)}));
  }) == "E0512");
  CHECK(byte_count("x", DType::F32, {0, 1LL << 60}) == 0);
}
