// The answers to what an editor asks about a text that is open: parameters of a request to its result, both as JSON.
//
//   textDocument/hover {"position": {"line": 2, "character": 7}, …}      ⇒  {"contents": …, "range": …}
#pragma once

#include <chrono>
#include <functional>

#include "cli/lsp/json.h"

namespace tilec::cli::lsp {

// Whether there is time left to look for more.
using GoesOn = std::function<bool()>;
inline constexpr std::chrono::milliseconds while_somebody_waits{300};
GoesOn for_a_while(std::chrono::steady_clock::duration time = while_somebody_waits);

Document& document_in(Workspace& workspace, const Json& params);

Json hover(Workspace& workspace, const Json& params);
Json definition(Workspace& workspace, const Json& params);
Json prepare_rename(Workspace& workspace, const Json& params);
Json rename(Workspace& workspace, const Json& params);
Json document_symbols(Workspace& workspace, const Json& params);
Json formatting(Workspace& workspace, const Json& params);
Json completion(Workspace& workspace, const Json& params);
Json code_actions(Workspace& workspace, const Json& params);

}  // namespace tilec::cli::lsp
