// What a call of the C API comes to: a status, and per thread the last error with its diagnostics.
//
//   return guarded([&] { …; return TILEC_OK; });        // exceptions become statuses; the host's callback hears what
//                                                       the call had to say
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lang/diagnostic.h"
#include "lang/source.h"
#include "runtime/fork.h"
#include "tilec/tilec.h"

namespace tilec::capi {

// The status of a call whose diagnostics these are. `keep` is for one that went well, perhaps with warnings.
void keep(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources);
tilec_status failed(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources);
tilec_status failed(
    tilec_status status, const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources);

tilec_status status_of_exception() noexcept;             // of the one that is being handled
void forget() noexcept;
void forget_error() noexcept;                            // and keep the warnings of a call that went well
void tell_host() noexcept;

template <class F> tilec_status caught(F f) noexcept {
  try {
    return f();
  } catch (...) {
    return status_of_exception();
  }
}

template <class F> tilec_status guarded(F f) noexcept {
  const tilec_status status = [&] {
    const runtime::Busy busy;
    return caught([&] {
      forget();
      return f();
    });
  }();
  tell_host();
  return status;
}

[[noreturn]] void misuse(const char* function, const std::string& what);
[[noreturn]] void misuse_null(const char* function, std::string_view parameter);

template <class T> T& need(T* pointer, const char* function, std::string_view parameter) {
  if (pointer == nullptr) misuse_null(function, parameter);
  return *pointer;
}

void need_list(const void* list, std::size_t count, const char* function, const char* parameter);

}  // namespace tilec::capi
