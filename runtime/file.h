// Reads and writes whole files, and loses nothing on the way.
//
//   write_file("link.npy", bytes)
//     ⇒  the file that the link leads to holds the bytes; if that fails, what it held before
//
// A file is written beside its place and renamed, so it appears whole or not at all, also on a signal or a full disk;
// its permissions and owner stay. It is written in place where a rename would do harm: a file of several names (hard
// links), of an owner that cannot be kept, in a folder that takes no new file, mounted by itself. Room for all bytes is
// then found first and signals wait; SIGKILL or a fault of the disk in between leave a part. Devices, pipes and
// /dev/stdout take the bytes as they come. docs/decisions/files.md says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilec::runtime {

// Of a program: a regular file of at most 16 MiB, `-` for standard input, or a descriptor that is open already
// (/dev/stdin, a shell's <(…)).
std::string read_text(const std::string& path);
std::string without_byte_order_mark(std::string text);   // which some editors put in front of UTF-8
std::string read_regular_text(const std::string& path);  // of an import: a regular file

// Of data: a regular file, a part at a time. RuntimeError E0501.
class DataFile {
 public:
  explicit DataFile(const std::string& path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  std::uint64_t size() const { return size_; }
  std::size_t read(void* to, std::size_t bytes);       // fewer only at the end of the file
  std::string read(std::size_t bytes);
  std::string rest();                                  // E0512 when it is larger than the machine's memory

 private:
  std::string path_;
  int file_;
  std::uint64_t size_ = 0, at_ = 0;
};

void write_file(const std::string& path, std::string_view bytes);  // RuntimeError E0502
// To a descriptor: 0, or why not all were written (errno). `stops_on_signal`: where a signal waits for the end of
// write_file.
int write_all(int file, std::string_view bytes, bool stops_on_signal = false);

// Files that belong together: all of them are written beside their places before the first is renamed, so none changes
// where one has no room.
struct FileBytes { std::string path; std::string_view bytes; };
void write_files(const std::vector<FileBytes>& files);

// Which file a path leads to: equal for all its spellings, links and hard links; of a file that is not there yet, too.
struct FileId {
  std::uint64_t device = 0, inode = 0;
  std::string path;                                    // of one that is not there yet, links followed
  bool operator==(const FileId&) const = default;
};
std::optional<FileId> file_id(const std::string& path);  // none: a device, a pipe, a folder

// The files of one command: what it reads it does not write, and it writes nothing twice.
class Files {
 public:
  void reads(const std::string& path);
  void writes(const std::string& path);                // RuntimeError E0532, E0533

 private:
  std::vector<std::pair<FileId, std::string>> read_, written_;
};

}  // namespace tilec::runtime
