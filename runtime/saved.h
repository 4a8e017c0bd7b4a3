// Keeps a text that a device's compiler refused, so that an error can name the file.
#pragma once

#include <string>
#include <string_view>

namespace tilec::runtime {

// Writes `text` to a new file `tilec-XXXXXX<suffix>` in the temporary folder (TMPDIR, else /tmp). Returns its path, or
// "(could not be saved)".
std::string save_text(std::string_view text, std::string_view suffix);

}  // namespace tilec::runtime
