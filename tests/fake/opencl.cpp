#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "fake.h"

namespace {

Fake& fake = *fake_opencl();

// An object is a count that goes down when it is released.
struct Object { std::atomic<int>* alive; std::size_t bytes = 0; void* data = nullptr; };

template <class Handle> Handle made(const char* name, std::atomic<int>& alive, cl_int* error, std::size_t bytes = 0) {
  const int told = fake.told(name);
  if (error) *error = told;
  if (told != 0) return nullptr;
  ++alive;
  return reinterpret_cast<Handle>(new Object{&alive, bytes, bytes ? std::malloc(bytes) : nullptr});
}

template <class Handle> cl_int released(const char* name, Handle handle) {
  auto* object = reinterpret_cast<Object*>(handle);
  --*object->alive;
  std::free(object->data);
  delete object;
  return fake.told(name);
}

template <class T> void put(T value, std::size_t size, void* to, std::size_t* needed) {
  if (needed) *needed = sizeof value;
  if (to && size >= sizeof value) std::memcpy(to, &value, sizeof value);
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

Fake* fake_opencl() {
  static Fake* the = new Fake;
  return the;
}

cl_int clGetPlatformIDs(cl_uint, cl_platform_id* platforms, cl_uint* count) {
  if (count) *count = 1;
  if (platforms) *platforms = reinterpret_cast<cl_platform_id>(&fake);
  return fake.told("clGetPlatformIDs");
}
cl_int clGetPlatformInfo(cl_platform_id, cl_platform_info, std::size_t size, void* to, std::size_t*) {
  std::strncpy(static_cast<char*>(to), "Fake platform", size);
  return fake.told("clGetPlatformInfo");
}
cl_int clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, cl_device_id* devices, cl_uint* count) {
  if (count) *count = static_cast<cl_uint>(fake.devices);
  if (devices) *devices = reinterpret_cast<cl_device_id>(&fake);
  return fake.told("clGetDeviceIDs");
}
cl_int clGetDeviceInfo(cl_device_id, cl_device_info what, std::size_t size, void* to, std::size_t* needed) {
  switch (what) {
    case CL_DEVICE_NAME: case CL_DEVICE_EXTENSIONS: {
      const std::string text = what == CL_DEVICE_NAME ? "Fake device" : "cl_khr_fp64";
      if (needed) *needed = text.size() + 1;
      if (to) std::memcpy(to, text.c_str(), text.size() + 1);
      break;
    }
    case CL_DEVICE_TYPE: put<cl_device_type>(CL_DEVICE_TYPE_GPU, size, to, needed); break;
    case CL_DEVICE_SINGLE_FP_CONFIG:
      put<cl_device_fp_config>(CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, size, to, needed);
      break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: put<std::size_t>(1024, size, to, needed); break;
    default:
      put<cl_ulong>(what == CL_DEVICE_LOCAL_MEM_SIZE ? static_cast<cl_ulong>(fake.shared)
                                                     : static_cast<cl_ulong>(fake.bytes_left),
          size, to, needed);
  }
  return fake.told("clGetDeviceInfo");
}

cl_context clCreateContext(const cl_context_properties*, cl_uint, const cl_device_id*,
    void (*)(const char*, const void*, std::size_t, void*), void*, cl_int* error) {
  return made<cl_context>("clCreateContext", fake.contexts, error);
}
cl_int clReleaseContext(cl_context context) { return released("clReleaseContext", context); }
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties, cl_int* error) {
  return made<cl_command_queue>("clCreateCommandQueue", fake.current, error);
}
cl_int clReleaseCommandQueue(cl_command_queue queue) { return released("clReleaseCommandQueue", queue); }
cl_mem clCreateBuffer(cl_context, cl_mem_flags, std::size_t bytes, void*, cl_int* error) {
  return made<cl_mem>("clCreateBuffer", fake.memory, error, bytes);
}
cl_mem clCreateSubBuffer(cl_mem, cl_mem_flags, cl_buffer_create_type, const void*, cl_int* error) {
  return made<cl_mem>("clCreateSubBuffer", fake.memory, error, 64 * 96 * 4);
}
cl_int clReleaseMemObject(cl_mem memory) { return released("clReleaseMemObject", memory); }
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem to, cl_bool, std::size_t, std::size_t bytes, const void* from,
    cl_uint, const cl_event*, cl_event*) {
  return std::memcpy(reinterpret_cast<Object*>(to)->data, from, bytes), fake.told("clEnqueueWriteBuffer");
}
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem from, cl_bool, std::size_t, std::size_t bytes, void* to, cl_uint,
    const cl_event*, cl_event*) {
  return std::memcpy(to, reinterpret_cast<Object*>(from)->data, bytes), fake.told("clEnqueueReadBuffer");
}
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char**, const std::size_t*, cl_int* error) {
  return made<cl_program>("clCreateProgramWithSource", fake.programs, error);
}
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id*, const char*, void (*)(cl_program, void*), void*) {
  ++fake.compiling;
  while (fake.closed) {}
  --fake.compiling;
  return fake.told("clBuildProgram");
}
cl_int clGetProgramBuildInfo(
    cl_program, cl_device_id, cl_program_build_info, std::size_t, void* to, std::size_t* size) {
  if (size) *size = 8;
  if (to) std::memcpy(to, "refused", 8);
  return fake.told("clGetProgramBuildInfo");
}
cl_int clReleaseProgram(cl_program program) { return released("clReleaseProgram", program); }
cl_kernel clCreateKernel(cl_program, const char*, cl_int* error) {
  return made<cl_kernel>("clCreateKernel", fake.modules, error);
}
cl_int clReleaseKernel(cl_kernel kernel) { return released("clReleaseKernel", kernel); }
cl_int clSetKernelArg(cl_kernel, cl_uint, std::size_t, const void*) { return fake.told("clSetKernelArg"); }
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const std::size_t*, const std::size_t*,
    const std::size_t*, cl_uint, const cl_event*, cl_event*) {
  return ++fake.launches, fake.told("clEnqueueNDRangeKernel");
}
cl_int clFinish(cl_command_queue) { return fake.told("clFinish"); }

#pragma GCC visibility pop
}
