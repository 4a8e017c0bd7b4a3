// peer.py, as text inside the command.
#pragma once

#include <span>
#include <string_view>

namespace tilec::cli {

struct PeerScript { std::string_view name, text; };
std::span<const PeerScript> peer_script();             // one

}  // namespace tilec::cli
