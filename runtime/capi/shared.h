// Files and programs that are equal, held once for as long as somebody holds one of them.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/cache.h"
#include "runtime/specialise.h"

namespace tilec::capi {

std::shared_ptr<const runtime::Loaded> shared_file(runtime::Loaded made);

// Programs alike share one Callable, and with it what it has compiled.
std::shared_ptr<const runtime::Callable> shared_callable(const std::shared_ptr<const runtime::Loaded>& loaded,
    const codegen::Request& request, std::size_t kernels, const std::shared_ptr<const runtime::Cache>& cache);

}  // namespace tilec::capi
