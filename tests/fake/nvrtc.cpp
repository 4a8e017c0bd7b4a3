#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "fake.h"

namespace {

Fake& fake = *fake_nvrtc();
const std::string cubin = "fake cubin", ptx = "fake ptx", text_log;

int give(const char* name, const std::string& bytes, char* to) {
  std::memcpy(to, bytes.c_str(), bytes.size() + 1);
  return fake.told(name);
}
int size(const char* name, const std::string& bytes, std::size_t* to) {
  *to = bytes.size() + 1;
  return fake.told(name);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) Fake* fake_nvrtc() {
  static Fake* the = new Fake;
  return the;
}

API nvrtcVersion(int* major, int* minor) {
  *major = fake.version / 1000, *minor = fake.version % 1000 / 10;
  return fake.told("nvrtcVersion");
}
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int result) {
  return result == 6 ? "NVRTC_ERROR_COMPILATION" : "told to fail";
}
API nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*, const char* const*) {
  if (const int told = fake.told("nvrtcCreateProgram")) return told;
  ++fake.programs, *program = new char;
  return 0;
}
API nvrtcDestroyProgram(void** program) {
  --fake.programs;
  delete static_cast<char*>(*program);
  return fake.told("nvrtcDestroyProgram");
}
API nvrtcCompileProgram(void*, int, const char* const*) {
  const int now = ++fake.compiling;
  for (int most = fake.most_compiling; now > most && !fake.most_compiling.compare_exchange_weak(most, now);) {}
  while (fake.closed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --fake.compiling;
  return fake.told("nvrtcCompileProgram");
}
API nvrtcGetPTXSize(void*, std::size_t* bytes) { return size("nvrtcGetPTXSize", ptx, bytes); }
API nvrtcGetPTX(void*, char* to) { return give("nvrtcGetPTX", ptx, to); }
API nvrtcGetCUBINSize(void*, std::size_t* bytes) { return size("nvrtcGetCUBINSize", cubin, bytes); }
API nvrtcGetCUBIN(void*, char* to) { return give("nvrtcGetCUBIN", cubin, to); }
API nvrtcGetProgramLogSize(void*, std::size_t* bytes) { return size("nvrtcGetProgramLogSize", text_log, bytes); }
API nvrtcGetProgramLog(void*, char* to) { return give("nvrtcGetProgramLog", text_log, to); }
