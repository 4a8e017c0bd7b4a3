#include "runtime/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "runtime/error.h"

namespace tilec::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t longest_text = 16 << 20;
constexpr std::size_t piece = 1 << 20;                 // between two of them a signal is seen

[[noreturn]] void unreadable(const std::string& path, const std::string& why) {
  throw machine_error(messages::unreadable, path, why);
}
[[noreturn]] void unwritable(const std::string& path, int reason) {
  throw machine_error(messages::unwritable, path, std::strerror(reason));
}

// A path whose links have all been followed, also where nothing lies there yet; or a descriptor of this process that it
// stands for.
struct Place { std::string path; std::optional<int> descriptor; };

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && end == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

Place place_of(const std::string& path) {
  std::error_code fault;
  const fs::path descriptors = fs::path("/proc") / std::to_string(::getpid()) / "fd";
  fs::path at = path;
  if (path.empty()) return {path, std::nullopt};
  for (int links = 0; links < 40; ++links) {
    const fs::path folder = fs::weakly_canonical(fs::absolute(at).parent_path(), fault);
    if (fault || !at.has_filename()) return {path, std::nullopt};
    const fs::path full = folder / at.filename();
    if (folder == descriptors)
      if (const auto descriptor = number(at.filename().string())) return {full.string(), descriptor};
    const fs::path target = fs::read_symlink(full, fault);
    if (fault) return {full.string(), std::nullopt};     // no link
    at = target.is_absolute() ? target : folder / target;
  }
  return {path, std::nullopt};
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe, and a file is needed";
  if (S_ISSOCK(mode)) return "it is a socket, and a file is needed";
  return "it is a device, and a file is needed";
}

// Looked at before it is opened, since a pipe would wait for its other end; and after, since it may have changed.
int open_regular(const std::string& path, struct stat& status) {
  if (::stat(path.c_str(), &status) != 0) unreadable(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) unreadable(path, kind_of(status.st_mode));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) unreadable(path, std::strerror(errno));
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) return file;
  ::close(file);
  unreadable(path, kind_of(status.st_mode));
}

struct Closing {
  int file;
  ~Closing() { ::close(file); }
};

// Until the end of the file or `bytes`. An error is not the end.
std::size_t read_some(int file, char* to, std::size_t bytes, const std::string& path) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::read(file, to + done, std::min(bytes - done, piece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) unreadable(path, std::strerror(errno));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::string read_limited(int file, const std::string& path) {
  std::string text;
  for (std::size_t done = 0;;) {
    text.resize(done + std::max<std::size_t>(done, 1 << 16));
    const std::size_t wanted = text.size() - done, n = read_some(file, text.data() + done, wanted, path);
    done += n;
    if (done > longest_text) unreadable(path, fmt::format("a program is at most {} MiB long", longest_text >> 20));
    if (n == wanted) continue;
    text.resize(done);
    return without_byte_order_mark(std::move(text));
  }
}

volatile std::sig_atomic_t signal_held = 0;            // a handler can reach nothing else
void hold(int signal) { signal_held = signal; }

// While a file is written, a signal that would end the process waits: the writer cleans up, or finishes, and then it is
// sent again. A file that grows too large is an error of `write`.
class Held {
 public:
  Held() {
    signal_held = 0;
    for (std::size_t k = 0; k < std::size(signals); ++k) {
      ::sigaction(signals[k], nullptr, &before_[k]);
      struct sigaction during {};
      during.sa_handler = signals[k] == SIGXFSZ ? SIG_IGN : hold;
      if (before_[k].sa_handler != SIG_IGN) ::sigaction(signals[k], &during, nullptr);
    }
  }
  ~Held() {
    for (std::size_t k = 0; k < std::size(signals); ++k) ::sigaction(signals[k], &before_[k], nullptr);
    if (signal_held != 0) std::raise(signal_held);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  static constexpr int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
  struct sigaction before_[std::size(signals)] = {};
};

}  // namespace

int write_all(int file, std::string_view bytes, bool stops_on_signal) {
  while (!bytes.empty()) {
    if (stops_on_signal && signal_held != 0) return EINTR;
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), piece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

namespace {

// Errors name the path as it was given, whatever it leads to: `path` below.

void write_stream(int file, const std::string& path, std::string_view bytes) {
  if (file < 0) unwritable(path, errno);
  int reason = write_all(file, bytes, false);
  if (::close(file) != 0 && reason == 0) reason = errno;
  if (reason != 0) unwritable(path, reason);
}

// A file keeps its names, owner and permissions. Room comes first: what it holds must not be lost for a full disk.
void write_through(const std::string& place, std::string_view bytes, const std::string& path) {
  const int file = ::open(place.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) unwritable(path, errno);
  struct stat before {};
  int reason = ::fstat(file, &before) != 0 ? errno : 0;
  if (reason == 0 && !bytes.empty()) {
    const int fault = ::posix_fallocate(file, 0, static_cast<off_t>(bytes.size()));
    if (fault == ENOSPC || fault == EDQUOT || fault == EFBIG) reason = fault;  // else this file system cannot tell
    if (reason != 0 && ::ftruncate(file, before.st_size) != 0) reason = errno;
  }
  if (reason == 0) reason = write_all(file, bytes, false);
  if (reason == 0 && ::ftruncate(file, static_cast<off_t>(bytes.size())) != 0) reason = errno;
  if (::close(file) != 0 && reason == 0) reason = errno;
  if (reason != 0) unwritable(path, reason);
}

// A new file beside the one that it becomes; gone again unless it did.
class Temporary {
 public:
  explicit Temporary(const std::string& path)
      : path_((fs::path(path).parent_path() / ".tilec-XXXXXX").string()),
        file_(::mkstemp(path_.data())),
        reason_(file_ < 0 ? errno : 0) {}
  ~Temporary() {
    if (file_ >= 0) ::close(file_);
    if (created()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  bool created() const { return !path_.empty() && (file_ >= 0 || reason_ == 0); }
  int reason() const { return reason_; }

  // The permissions and the owner of the file that is replaced; those of a new one. False when they cannot be had.
  bool resemble(const struct stat* replaced) const {
    if (replaced == nullptr) {
      const mode_t mask = ::umask(0);
      ::umask(mask);
      return ::fchmod(file_, 0666 & ~mask) == 0;
    }
    struct stat mine {};
    if (::fstat(file_, &mine) != 0) return false;
    const bool same = mine.st_uid == replaced->st_uid && mine.st_gid == replaced->st_gid;
    return (same || ::fchown(file_, replaced->st_uid, replaced->st_gid) == 0) &&
        ::fchmod(file_, replaced->st_mode & 07777) == 0;
  }

  // 0, or why it did not.
  int fill(std::string_view bytes) {
    const int reason = write_all(file_, bytes, true);
    const int closed = ::close(std::exchange(file_, -1)) != 0 ? errno : 0;
    return reason != 0 ? reason : closed;
  }
  int rename(const std::string& path) {
    if (::rename(path_.c_str(), path.c_str()) != 0) return errno;
    path_.clear();
    return 0;
  }
  int become(const std::string& path, std::string_view bytes) {
    const int reason = fill(bytes);
    return reason != 0 ? reason : rename(path);
  }

 private:
  std::string path_;
  int file_, reason_;
};

void replace(const std::string& place, std::string_view bytes, const struct stat* replaced, const std::string& path) {
  int reason = 0;
  bool in_place = false;
  const Held held;
  {
    Temporary temporary(place);
    if (!temporary.created()) {
      reason = temporary.reason();
      in_place = reason == EACCES || reason == EPERM || reason == EROFS;
    } else if (!temporary.resemble(replaced)) {
      reason = errno;
      in_place = true;
    } else {
      reason = temporary.become(place, bytes);
      in_place = reason == EBUSY || reason == EXDEV;
    }
  }
  if (reason == 0) return;
  if (in_place && replaced != nullptr) return write_through(place, bytes, path);
  unwritable(path, reason);
}

std::uint64_t memory_here() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string without_byte_order_mark(std::string text) {
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

std::string read_text(const std::string& path) {
  if (path == "-") return read_limited(0, "standard input");
  if (const Place place = place_of(path); place.descriptor) return read_limited(*place.descriptor, path);
  return read_regular_text(path);
}

std::string read_regular_text(const std::string& path) {
  struct stat status {};
  const Closing file{open_regular(path, status)};
  return read_limited(file.file, path);
}

DataFile::DataFile(const std::string& path) : path_(path) {
  struct stat status {};
  file_ = open_regular(path, status);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

DataFile::~DataFile() { ::close(file_); }

std::size_t DataFile::read(void* to, std::size_t bytes) {
  const std::size_t n = read_some(file_, static_cast<char*>(to), bytes, path_);
  at_ += n;
  return n;
}

std::string DataFile::read(std::size_t bytes) {
  std::string text(bytes, '\0');
  text.resize(read(text.data(), bytes));
  return text;
}

std::string DataFile::rest() {
  if (size_ > memory_here())
    throw machine_error(
        messages::out_of_memory, path_, fmt::format("it has {} bytes, more than the memory of this machine", size_));
  return read(size_ > at_ ? size_ - at_ : 0);
}

void write_file(const std::string& path, std::string_view bytes) {
  const Place place = place_of(path);
  if (place.descriptor) {
    std::fflush(nullptr);                                // what was printed comes first
    return write_stream(::dup(*place.descriptor), path, bytes);
  }
  struct stat status {};
  if (::stat(place.path.c_str(), &status) != 0) {
    if (errno != ENOENT || path.empty() || path.back() == '/') unwritable(path, errno);
    return replace(place.path, bytes, nullptr, path);
  }
  if (S_ISDIR(status.st_mode)) throw machine_error(messages::unwritable, path, "it is a folder");
  if (!S_ISREG(status.st_mode))
    return write_stream(::open(place.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY), path, bytes);
  if (::access(place.path.c_str(), W_OK) != 0) unwritable(path, errno);
  if (status.st_nlink == 1) return replace(place.path, bytes, &status, path);
  const Held held;
  write_through(place.path, bytes, path);
}

// What is no plain file comes first, since it cannot be taken back: a folder among the paths is an error before
// anything is written.
void write_files(const std::vector<FileBytes>& files) {
  std::vector<const FileBytes*> plain, in_place;
  for (const FileBytes& file : files) {
    const Place place = place_of(file.path);
    struct stat status {};
    const bool there = ::stat(place.path.c_str(), &status) == 0;
    const bool renamed = !place.descriptor &&
        (there ? S_ISREG(status.st_mode) && status.st_nlink == 1 && ::access(place.path.c_str(), W_OK) == 0
               : errno == ENOENT && !file.path.empty() && file.path.back() != '/');
    if (renamed) plain.push_back(&file);
    else write_file(file.path, file.bytes);
  }
  {
    const Held held;
    struct Staged { const FileBytes* file; std::string place; std::unique_ptr<Temporary> temporary; };
    std::vector<Staged> staged;                          // gone before a signal that waited is sent again
    for (const FileBytes* file : plain) {
      const std::string place = place_of(file->path).path;
      struct stat status {};
      const bool there = ::stat(place.c_str(), &status) == 0;
      auto temporary = std::make_unique<Temporary>(place);
      if (!temporary->created() && !there) unwritable(file->path, temporary->reason());
      if (!temporary->created() || !temporary->resemble(there ? &status : nullptr)) {
        in_place.push_back(file);
        continue;
      }
      if (const int reason = temporary->fill(file->bytes); reason != 0) unwritable(file->path, reason);
      staged.push_back({file, place, std::move(temporary)});
    }
    for (Staged& one : staged)
      if (one.temporary->rename(one.place) != 0) in_place.push_back(one.file);
  }
  for (const FileBytes* file : in_place) write_file(file->path, file->bytes);
}

std::optional<FileId> file_id(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return FileId{0, 0, place_of(path).path};
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return FileId{status.st_dev, status.st_ino, {}};
}

void Files::reads(const std::string& path) {
  if (const auto id = file_id(path == "-" ? "/dev/stdin" : path); id && id->path.empty()) read_.emplace_back(*id, path);
}

void Files::writes(const std::string& path) {
  const auto id = file_id(path);
  if (!id) return;
  for (const auto& [other, name] : read_)
    if (other == *id) throw argument_error(messages::overwrites_input, path, name).hint("name another file");
  for (const auto& [other, name] : written_)
    if (other == *id) throw argument_error(messages::one_file_twice, name, path).hint("name two files");
  written_.emplace_back(*id, path);
}

}  // namespace tilec::runtime
