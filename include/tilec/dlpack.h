/* The ABI of DLPack 0.8/1.0 that tilec uses, declared from its public specification (https://dmlc.github.io/dlpack).
 *
 * A DLTensor borrows memory: `data` plus `byte_offset` is element 0, `strides` count elements (NULL: row-major, compact) and may
 * be zero or negative. If your program includes the original dlpack/dlpack.h first, that one is used. */
#ifndef TILEC_DLPACK_H
#define TILEC_DLPACK_H
#ifndef DLPACK_VERSION

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLOpenCL = 4, kDLCUDAManaged = 13 } DLDeviceType;

typedef struct {
  int32_t device_type; /* a DLDeviceType */
  int32_t device_id;
} DLDevice;

typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLOpaqueHandle = 3U, kDLBfloat = 4U, kDLComplex = 5U, kDLBool = 6U } DLDataTypeCode;

typedef struct {
  uint8_t code;   /* a DLDataTypeCode */
  uint8_t bits;   /* of one lane: 8, 16, 32, 64 */
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

#ifdef __cplusplus
}
#endif

#endif
#endif
