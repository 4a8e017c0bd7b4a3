// A folder of our own in TMPDIR, gone with all that is in it.
#pragma once

#include <string>

namespace tilec::runtime {

class TemporaryFolder {
 public:
  TemporaryFolder();                                   // RuntimeError E0502
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tilec::runtime
