// One line on a terminal while something takes long, gone when it ends: `  checking [######..............]  30 %`.
// Nothing on a pipe, in a file, or with NO_COLOR.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tilec::cli {

std::string bar(double part);                          // `[######..............]`

class ProgressLine {
 public:
  explicit ProgressLine(bool shows = true);            // false: never
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // From half a second on, ten times a second; `text` is made only then.
  void operator()(const std::function<std::string()>& text);
  void operator()(const char* what, double part);      // of a whole of 1

 private:
  bool shows_, printed_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace tilec::cli
