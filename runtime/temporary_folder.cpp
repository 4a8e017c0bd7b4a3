#include "runtime/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/error.h"

namespace tilec::runtime {

TemporaryFolder::TemporaryFolder() {
  const char* parent = std::getenv("TMPDIR");
  path_ = std::string(parent && *parent ? parent : "/tmp") + "/tilec-XXXXXX";
  if (!mkdtemp(path_.data())) throw machine_error(messages::unwritable, path_, std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code fault;
  std::filesystem::remove_all(path_, fault);
}

}  // namespace tilec::runtime
