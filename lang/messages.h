// Every message of the compiler, declared once with the types of its arguments.
//
// One section per folder; add a message at the end of your own section and a page docs/errors/CODE.md. Codes:
//   E01xx W01xx R01xx  lang       E02xx W02xx R02xx  poly       E03xx W03xx R03xx  autodiff
//   E04xx W04xx R04xx  codegen    E05xx W05xx R05xx  runtime and command line
// Style: lower case, no full stop, code in backticks; say what was seen, never "invalid", "illegal" or "unexpected" alone.
//
//   diagnostics.report(access.span, messages::rank_mismatch, name, rank, count).label(tensor.span, "declared here");
#pragma once

#include <string_view>

#include "lang/diagnostic.h"

namespace tilec::lang::messages {

using Text = std::string_view;

// ---- lang: parsing --------------------------------------------------------------------------------------------------------------

// ---- lang: checking -------------------------------------------------------------------------------------------------------------

// ---- poly -----------------------------------------------------------------------------------------------------------------------

// ---- autodiff -------------------------------------------------------------------------------------------------------------------

// ---- codegen --------------------------------------------------------------------------------------------------------------------

// ---- runtime and command line ---------------------------------------------------------------------------------------------------

}  // namespace tilec::lang::messages
