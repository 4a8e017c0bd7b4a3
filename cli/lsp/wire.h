// Messages of the Language Server Protocol as they cross a pipe:
//
//   Content-Length: 17\r\n\r\n{"jsonrpc":"2.0"}
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tilec::cli::lsp {

struct Incoming {
  enum class Kind { Text, Refused, End } kind = Kind::End;
  std::string text;                                    // of the message; of one that is refused, why
};

class Wire {
 public:
  Wire(int in, int out) : in_(in), out_(out) {}
  Incoming read();                                     // waits; what is no message is refused, and the next one read
  bool waits(int milliseconds);                        // for nothing at most so long: true when nothing came
  bool write(std::string_view text);                   // false when nobody listens any more

 private:
  static constexpr std::size_t largest_header = 64 << 10, largest_message = 64 << 20;
  int in_, out_;
  std::string buffer_;
  bool ended_ = false;

  bool more();                                         // bytes into the buffer; false at the end
};

}  // namespace tilec::cli::lsp
