// From a program and arguments to what runs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/capi/handles.h"
#include "tilec/tilec.h"

namespace tilec::capi {

tilec_status specialise(const tilec_program& program, const std::vector<runtime::Argument>& in,
    const std::vector<runtime::Argument>& out, std::shared_ptr<const runtime::Specialisation>& made);

}  // namespace tilec::capi
