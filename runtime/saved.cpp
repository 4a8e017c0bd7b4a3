#include "runtime/saved.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>

namespace tilec::runtime {

std::string save_text(std::string_view text, std::string_view suffix) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/tilec-XXXXXX" + std::string(suffix);
  const int file = mkstemps(path.data(), static_cast<int>(suffix.size()));
  if (file < 0) return "(could not be saved)";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  const bool whole = done == text.size();
  close(file);
  return whole ? path : "(could not be saved)";
}

}  // namespace tilec::runtime
