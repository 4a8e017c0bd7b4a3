#include "cli/lsp/wire.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <optional>

#include "runtime/file.h"

namespace tilec::cli::lsp {
namespace {

// Of the block of header lines; nothing when none says it.
std::optional<std::size_t> content_length(std::string_view header) {
  constexpr std::string_view name = "content-length:";
  for (std::size_t at = 0; at < header.size();) {
    const std::size_t end = std::min(header.find('\n', at), header.size());
    std::string_view line = header.substr(at, end - at);
    at = end + 1;
    const bool named = line.size() >= name.size() &&
        std::equal(name.begin(), name.end(), line.begin(),
            [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
    if (!named) continue;
    line.remove_prefix(name.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    std::size_t length = 0;
    const auto [stop, fault] = std::from_chars(line.data(), line.data() + line.size(), length);
    if (fault == std::errc() && stop == line.data() + line.size()) return length;
  }
  return std::nullopt;
}

}  // namespace

bool Wire::more() {
  char bytes[1 << 16];
  for (;;) {
    const ssize_t count = ::read(in_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return !(ended_ = true);
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }
}

bool Wire::waits(int milliseconds) {
  if (!buffer_.empty() || ended_) return false;
  pollfd one{in_, POLLIN, 0};
  return ::poll(&one, 1, milliseconds) == 0;
}

Incoming Wire::read() {
  std::size_t end = 0, mark = 4;
  for (;;) {
    end = buffer_.find("\r\n\r\n"), mark = 4;
    if (const std::size_t plain = buffer_.find("\n\n"); plain < end) end = plain, mark = 2;
    if (end != std::string::npos) break;
    if (buffer_.size() > largest_header) {
      buffer_.clear();
      return {Incoming::Kind::Refused, fmt::format("a header of more than {} bytes", largest_header)};
    }
    if (!more()) return {};
  }
  const std::optional<std::size_t> length = content_length(std::string_view(buffer_).substr(0, end));
  buffer_.erase(0, end + mark);
  if (!length) return {Incoming::Kind::Refused, "a header without Content-Length"};
  if (*length > largest_message) {
    for (std::size_t left = *length; left > 0;) {
      const std::size_t part = std::min(left, buffer_.size());
      buffer_.erase(0, part);
      left -= part;
      if (left > 0 && !more()) return {};
    }
    return {Incoming::Kind::Refused, fmt::format("a message of {} bytes; the most is {}", *length, largest_message)};
  }
  while (buffer_.size() < *length)
    if (!more()) return {};
  Incoming message{Incoming::Kind::Text, buffer_.substr(0, *length)};
  buffer_.erase(0, *length);
  return message;
}

bool Wire::write(std::string_view text) {
  return runtime::write_all(out_, fmt::format("Content-Length: {}\r\n\r\n{}", text.size(), text)) == 0;
}

}  // namespace tilec::cli::lsp
