#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/session.h"

namespace tilec::cli {

namespace {

constexpr auto first_after = std::chrono::milliseconds(500), again_after = std::chrono::milliseconds(100);

}  // namespace

std::string bar(double part) {
  constexpr std::size_t width = 20;
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * width);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

ProgressLine::ProgressLine(bool shows)
    : shows_(shows && colour(2)), next_(std::chrono::steady_clock::now() + first_after) {}

ProgressLine::~ProgressLine() {
  if (printed_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::operator()(const std::function<std::string()>& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!shows_ || now < next_) return;
  fmt::print(stderr, "\r  {}\033[K", text());
  std::fflush(stderr);
  next_ = now + again_after;
  printed_ = true;
}

void ProgressLine::operator()(const char* what, double part) {
  (*this)([&] { return fmt::format("{} {} {:3.0f} %", what, bar(part), 100 * part); });
}

}  // namespace tilec::cli
