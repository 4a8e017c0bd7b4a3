// Texts with all that they import, read and checked.
#pragma once

#include <memory>
#include <vector>

#include "lang/load.h"
#include "runtime/specialise.h"

namespace tilec::capi {

// Null when the text, or one that it imports, is at fault.
std::shared_ptr<const runtime::Loaded> loaded_from(const lang::Source& source, const lang::Find& find,
    std::vector<lang::Source>& sources, lang::Diagnostics& diagnostics);

}  // namespace tilec::capi
