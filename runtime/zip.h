// As much of the zip format as NumPy's .npz uses: members stored or deflated, sizes up to zip64.
//
// Format: PKWARE's APPNOTE 6.3. The directory at the end of the file is read, since NumPy leaves the sizes of a streamed member
// out of its local header; written archives are stored, as `numpy.savez` writes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilec::runtime {

struct ZipMember { std::string name, bytes; };

std::vector<ZipMember> read_zip(std::string_view file, const std::string& path);  // RuntimeError E0506
std::string write_zip(const std::vector<ZipMember>& members);

}  // namespace tilec::runtime
