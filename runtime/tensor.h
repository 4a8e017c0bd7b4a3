// A view of memory as a tensor: element 0, a shape, strides in elements (zero and negative ones too), and who owns the
// bytes.
//
//   NumPy's A[::-1, :3] of a 4x6 f32   ⇒   {data of A[3, 0], f32, {4, 3}, {-6, 1}}
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/type.h"
#include "poly/interpret.h"
#include "tilec/dlpack.h"

namespace tilec::runtime {

using lang::DType;

struct Tensor {
  void* data = nullptr;                                // of element 0, wherever the strides lead from there
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;                   // in elements, one per dimension
  DLDevice device{kDLCPU, 0};
  std::shared_ptr<void> owner;                         // null: borrowed, the caller keeps the memory alive

  std::int64_t count() const;                          // elements
  bool is_row_major() const;                           // dense, last dimension fastest
};

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape);
std::string print_shape(const std::vector<std::int64_t>& shape);                    // `2x3`, `scalar`
std::string describe_shape(const std::vector<std::int64_t>& shape);                 // `2 by 3`, `a scalar`

// Bytes of a dense tensor; RuntimeError E0513 when they do not fit in 63 bits.
std::int64_t byte_count(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape);

// A row-major tensor of its own, 64-byte aligned, uninitialised; RuntimeError E0512 names tensor and bytes when memory
// is gone.
Tensor allocate(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape);

// A borrowed view of a DLTensor; nullopt when its type is none of Tile's.
std::optional<Tensor> borrow(const DLTensor& tensor);
DLDataType dl_type(DType dtype);
std::optional<DType> dtype_of(DLDataType type);

// Every element in row-major order, and back: `tensor` takes the elements, rounded or wrapped to its type.
poly::Array to_array(const Tensor& tensor);
void from_array(const poly::Array& array, const Tensor& tensor);

// Does the type have this number? A float rounds it, though not to infinity; an integer has it as it is or not at all.
bool holds(DType type, const poly::Number& number);
std::string print_number(const poly::Number& number);

// The same elements in another type, row-major. RuntimeError E0215 names the first that the type does not have.
Tensor convert(std::string_view name, const Tensor& tensor, DType dtype);

}  // namespace tilec::runtime
