// Reads and writes NumPy's .npy and .npz files.
//
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html (versions 1.0, 2.0, 3.0); .npz is a
//         zip archive
// of .npy members, stored or deflated. Every fault is a RuntimeError that names the file (E0501 … E0508).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor.h"
#include "runtime/zip.h"

namespace tilec::runtime {

Tensor read_npy(const std::string& path);              // row-major; a Fortran-ordered file is a strided view of what it
                                                       // holds

// An archive of which some members are wanted: the others are not unpacked.
class Npz {
 public:
  explicit Npz(const std::string& path);
  Npz(const Npz&) = delete;
  std::vector<std::string> names() const;                // without `.npy`, in order of the archive
  Tensor read(std::size_t position) const;

 private:
  std::string path_, file_;
  ZipArchive archive_;                                   // of file_
};

// bf16, which NumPy does not have, is stored as f32.
void write_npy(const std::string& path, const Tensor& tensor);
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& members);
// other members stay as they are; E0506: no archive
void update_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& members);

}  // namespace tilec::runtime
