#include "runtime/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "runtime/archive.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace tilec::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view ending = ".compiled", of_plans = ".plan", unfinished = ".part";
constexpr std::string_view plan_magic = "tilec plan ", plan_begins = "tilec plan 1\n";
constexpr double share_left = 0.9;                     // of the limit, when entries go
constexpr std::int64_t hour = 3600;
constexpr unsigned looks_at_size = 16;                 // entries written from one look at the folder's size to the next

void warn(lang::Diagnostics& diagnostics, const std::string& path, const std::string& why) {
  static std::atomic_flag warned = ATOMIC_FLAG_INIT;
  if (!warned.test_and_set()) diagnostics.report({}, messages::unusable_cache, path, why);
}

// Machine code that somebody else may have written is not run. Empty: nobody else can have.
std::string others(const struct stat& status) {
  if (status.st_uid != ::geteuid()) return "it belongs to another user";
  return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ? "others may write to it" : "";
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { if (number_ >= 0) ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

bool read_all(int file, std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::read(file, bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += static_cast<std::size_t>(got);
  }
  return true;
}

struct File { std::string path; std::uint64_t bytes; std::int64_t used; };

// Is it a name that a Cache gives (path_of, place_of_plan, and unfinished ones of both)? A folder may hold files of
// others.
bool is_name_of_ours(std::string_view name) {
  constexpr std::size_t digits = 32;
  return name.size() > digits && name[digits] == '.' && std::all_of(name.begin(), name.begin() + digits, [](char c) {
    return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
  });
}

// Others may take files away meanwhile.
std::vector<File> files_of(const std::string& folder, std::string_view with) {
  std::vector<File> files;
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault)) {
    struct stat status{};
    const std::string path = entry->path().string();
    if (path.ends_with(with) && is_name_of_ours(entry->path().filename().string()) &&
        ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode))
      files.push_back({path, static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec});
  }
  return files;
}

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec;
}

const char* set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

}  // namespace

// FNV-1a, from two starts. It only names files.
std::string hash_of(const std::string& text) {
  std::string name;
  for (const std::uint64_t start : {0xcbf29ce484222325u, 0x84222325cbf29ce4u}) {
    std::uint64_t sum = start;
    for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    name += fmt::format("{:016x}", sum);
  }
  return name;
}

std::shared_ptr<const Cache> Cache::usual() {
  if (const char* folder = set("TILEC_CACHE"))
    return folder == std::string_view("off") ? nullptr : std::make_shared<const Cache>(folder);
  if (const char* folder = set("XDG_CACHE_HOME"); folder != nullptr && *folder == '/')
    return std::make_shared<const Cache>(std::string(folder) + "/tilec");
  if (const char* home = set("HOME"); home != nullptr && *home == '/')
    return std::make_shared<const Cache>(std::string(home) + "/.cache/tilec");
  return nullptr;
}

std::uint64_t Cache::usual_limit() {
  std::uint64_t bytes = std::uint64_t{1} << 30, asked = 0;
  if (const char* text = set("TILEC_CACHE_LIMIT")) {
    const char* const stop = text + std::strlen(text);
    if (const auto [end, fault] = std::from_chars(text, stop, asked); fault == std::errc() && end == stop)
      bytes = asked;
  }
  return bytes;
}

std::string Cache::path_of(const std::string& text) const {
  return fmt::format("{}/{}{}", folder_, hash_of(text), ending);
}

bool Cache::is_ours(lang::Diagnostics& diagnostics) const {
  struct stat status{};
  if (::stat(folder_.c_str(), &status) != 0) return false;
  const std::string why = S_ISDIR(status.st_mode) ? others(status) : "it is no folder";
  if (!why.empty()) warn(diagnostics, folder_, why);
  return why.empty();
}

// Nothing: there is none, or none that we use.
std::optional<std::string> Cache::read(const std::string& path, lang::Diagnostics& diagnostics) const {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !is_ours(diagnostics)) return std::nullopt;
  const auto refused = [&](const std::string& why) {
    warn(diagnostics, path, why);
    return std::nullopt;
  };
  if (!S_ISREG(status.st_mode)) return refused("it is no file");
  if (const std::string why = others(status); !why.empty()) return refused(why);
  if (static_cast<std::uint64_t>(status.st_size) > limit_) return refused("it is larger than the cache may be");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  if (!read_all(file.get(), bytes)) return refused("it cannot be read");
  const timespec used[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  if (now() - status.st_mtim.tv_sec > hour) static_cast<void>(::futimens(file.get(), used));
  return bytes;
}

// Whole, in a folder of ours that is made where there is none.
bool Cache::write(const std::string& path, const std::string& bytes, lang::Diagnostics& diagnostics) const {
  static std::atomic<unsigned> written = 0;
  std::error_code fault;
  const fs::path parent = fs::path(folder_).parent_path();
  if (!parent.empty()) fs::create_directories(parent, fault);
  if (::mkdir(folder_.c_str(), S_IRWXU) != 0 && errno != EEXIST) return false;
  if (!is_ours(diagnostics) || bytes.size() > limit_) return false;
  const unsigned count = written++;
  const std::string part = fmt::format("{}.{}.{}{}", path, ::getpid(), count, unfinished);
  {
    const Descriptor file(
        ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
    if (file.get() < 0) return false;
    if (write_all(file.get(), bytes) != 0) {
      ::unlink(part.c_str());
      return false;
    }
  }
  const bool there = ::rename(part.c_str(), path.c_str()) == 0;
  if (!there) ::unlink(part.c_str());
  if (count % looks_at_size == 0) shrink();
  return there;
}

std::optional<Compiled> Cache::find(const std::string& text, lang::Diagnostics& diagnostics) const {
  const std::string path = path_of(text);
  const std::optional<std::string> bytes = read(path, diagnostics);
  if (!bytes) return std::nullopt;
  try {
    Compiled compiled = compiled_from(*bytes, text);
    if (compiled.halves.empty()) return std::nullopt;
    return compiled;
  } catch (const std::string& why) {
    warn(diagnostics, path, why);
  } catch (const RuntimeError& fault) {
    warn(diagnostics, path, fault.diagnostic.message);
  }
  return std::nullopt;
}

void Cache::keep(const std::string& text, const Compiled& compiled, lang::Diagnostics& diagnostics) const {
  static_cast<void>(write(path_of(text), to_bytes(compiled, text), diagnostics));
}

std::string Cache::place_of_plan(const std::string& key, std::int64_t threads) const {
  return fmt::format("{}/{}.{}{}", folder_, key, threads, of_plans);
}

std::optional<std::string> Cache::plan_for(
    const std::string& key, std::int64_t threads, lang::Diagnostics& diagnostics) const {
  const std::string path = place_of_plan(key, threads);
  const std::optional<std::string> bytes = read(path, diagnostics);
  if (!bytes) return std::nullopt;
  try {
    return std::string(unframed(*bytes, plan_magic, plan_begins));
  } catch (const std::string& why) {
    warn(diagnostics, path, why);
  }
  return std::nullopt;
}

bool Cache::keep_plan(
    const std::string& key, std::int64_t threads, const std::string& plan, lang::Diagnostics& diagnostics) const {
  return write(place_of_plan(key, threads), framed(plan_begins, plan), diagnostics);
}

void Cache::shrink() const {
  for (const File& part : files_of(folder_, unfinished))  // of those who were killed
    if (now() - part.used > hour) ::unlink(part.path.c_str());
  std::vector<File> files = files_of(folder_, ending);
  std::uint64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  if (bytes <= limit_) return;
  std::ranges::sort(files, {}, &File::used);
  for (const File& file : files) {
    if (static_cast<double>(bytes) <= share_left * static_cast<double>(limit_)) return;
    if (::unlink(file.path.c_str()) == 0) bytes -= file.bytes;
  }
}

Cache::Content Cache::content() const {
  Content all;
  for (const File& file : files_of(folder_, ending)) ++all.entries, all.bytes += file.bytes;
  for (const File& file : files_of(folder_, of_plans)) ++all.plans, all.bytes += file.bytes;
  return all;
}

Cache::Content Cache::clear() const {
  Content gone;
  for (const std::string_view with : {ending, of_plans, unfinished})
    for (const File& file : files_of(folder_, with))
      if (::unlink(file.path.c_str()) == 0 && with != unfinished)
        ++(with == ending ? gone.entries : gone.plans), gone.bytes += file.bytes;
  return gone;
}

}  // namespace tilec::runtime
