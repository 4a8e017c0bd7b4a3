// The copies of a Request.
#include "codegen/request.h"

namespace tilec::codegen {

Request::Request() = default;
Request::Request(const Request&) = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(const Request&) = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

}  // namespace tilec::codegen
