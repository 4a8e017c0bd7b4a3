// As much of the zip format as NumPy's .npz uses: members stored or deflated, sizes up to zip64.
//
// Format: PKWARE's APPNOTE 6.3. The directory at the end of the file is read, since NumPy leaves the sizes of a
//         streamed member
// out of its local header; written archives are stored, as `numpy.savez` writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::runtime {

struct ZipMember { std::string name, bytes; };

// The directory of an archive, whose members are unpacked one by one. No two share bytes and deflate packs at most 1032
// to 1, so all of them together take at most 1032 times the file. Faults are RuntimeError E0506.
class ZipArchive {
 public:
  ZipArchive(std::string_view file, const std::string& path);  // a view of the caller's bytes
  std::vector<std::string> names() const;
  std::string unpack(std::size_t position) const;

 private:
  struct Packed { std::string name; std::string_view bytes; std::uint64_t size; std::uint32_t crc; bool deflated; };
  std::string path_;
  std::vector<Packed> members_;
};

std::uint32_t checksum(std::string_view bytes);        // CRC-32, as zip has it

std::vector<ZipMember> read_zip(std::string_view file, const std::string& path);
std::string write_zip(const std::vector<ZipMember>& members);

}  // namespace tilec::runtime
