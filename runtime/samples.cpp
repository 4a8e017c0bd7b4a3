#include "runtime/samples.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tilec::runtime {

Interval interval_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto n = static_cast<double>(samples.size());
  const double reach = 0.98 * std::sqrt(n);
  const auto at = [&](double place) { return samples[static_cast<std::size_t>(std::clamp(place, 0.0, n - 1))]; };
  return {at(n / 2), at(std::floor(n / 2 - reach)), at(std::ceil(n / 2 + reach))};
}

Interval ratio_of(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> ratios;
  for (std::size_t k = 0; k < above.size(); ++k) ratios.push_back(above[k] / below[k]);
  return interval_of(std::move(ratios));
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double thread_seconds_of(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

}  // namespace tilec::runtime
