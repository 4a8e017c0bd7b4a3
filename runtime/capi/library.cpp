// What belongs to the process or to the library as a whole: its version, what a host puts in the place of ours, the
// files of std/.
#include <fmt/format.h>

#include <optional>

#include "runtime/capi/error.h"
#include "runtime/hooks.h"
#include "runtime/standard_library.h"

using namespace tilec;
using namespace tilec::capi;

extern "C" {

int tilec_version(void) { return TILEC_VERSION_MAJOR * 10000 + TILEC_VERSION_MINOR * 100 + TILEC_VERSION_PATCH; }

tilec_status tilec_set_allocator(tilec_allocate_function allocate, tilec_free_function release, void* user) {
  return guarded([&] {
    if ((allocate == nullptr) != (release == nullptr))
      misuse("tilec_set_allocator",
          fmt::format("`{}` is NULL and `{}` is not", allocate == nullptr ? "allocate" : "release",
              allocate == nullptr ? "release" : "allocate"));
    runtime::allocator_hook().set(
        allocate != nullptr ? std::optional(runtime::Allocator{allocate, release, user}) : std::nullopt);
    return TILEC_OK;
  });
}

tilec_status tilec_set_parallel_for(tilec_parallel_for_function run, int64_t workers, void* user) {
  return guarded([&] {
    constexpr int64_t most = 65536;
    if (run != nullptr && (workers < 1 || workers > most))
      misuse("tilec_set_parallel_for", fmt::format("`workers` is {}, where 1 to {} are possible", workers, most));
    runtime::pool_hook().set(run != nullptr ? std::optional(runtime::HostPool{run, user, workers}) : std::nullopt);
    return TILEC_OK;
  });
}

// The views are of whole literals, which end with a zero byte.
const char* tilec_standard_file_name(size_t position) {
  const auto files = runtime::standard_library();
  return position < files.size() ? files[position].name.data() : nullptr;
}

const char* tilec_standard_file_text(size_t position) {
  const auto files = runtime::standard_library();
  return position < files.size() ? files[position].text.data() : nullptr;
}

}  // extern "C"
