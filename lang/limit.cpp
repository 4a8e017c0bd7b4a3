#include "lang/limit.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "lang/messages.h"

namespace tilec::lang {
namespace {

struct Row { const char* variable; const char* what; std::int64_t usual; };

const Row& row(Limit limit) {
  static constexpr Row rows[] = {
      {"TILEC_LIMIT_CALLS", "calls, those inside calls included", 200'000},
      {"TILEC_LIMIT_NESTING", "calls inside each other", 500},
      {"TILEC_LIMIT_STATEMENTS", "statements once its calls and derivatives are written out", 100'000},
      {"TILEC_LIMIT_COMPONENTS", "components in one tuple, those of its tuples included", 10'000},
      {"TILEC_LIMIT_INDICES", "indices in one statement or dimensions of one tensor", 128},
      {"TILEC_LIMIT_NODES", "operations and operands in one value once its calls and derivatives are written out",
          20'000},
      {"TILEC_LIMIT_OPERATIONS",
          "operations and operands in all values together once its calls and derivatives are written out", 1'000'000},
      {"TILEC_LIMIT_TERMS", "terms in one size, multiplied out", 1'000},
      {"TILEC_LIMIT_COMPILED", "operations and operands in the statements that kernels are compiled of", 150'000},
  };
  return rows[static_cast<std::size_t>(limit)];
}

}  // namespace

// Read each time: it is asked for where work begins, not inside it.
std::int64_t most(Limit limit) {
  const auto& [variable, what, usual] = row(limit);
  const char* text = std::getenv(variable);
  const std::int64_t given = text ? std::strtoll(text, nullptr, 10) : 0;
  return given > 0 ? given : usual;
}

bool within(Limit limit, std::int64_t count, Span span, Diagnostics& diagnostics) {
  const std::int64_t bound = most(limit);
  if (count <= bound) return true;
  diagnostics.report(span, messages::limit, std::to_string(bound), row(limit).what)
      .hint(fmt::format("the environment variable {} raises this limit", row(limit).variable));
  return false;
}

}  // namespace tilec::lang
