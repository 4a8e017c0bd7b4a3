// Times that were measured several times.
#pragma once

#include <functional>
#include <vector>

namespace tilec::runtime {

// The median of samples, and an interval that holds it with 95 %: from one sample 0.98 sqrt(n) places before the middle
// to one as far behind it.
struct Interval { double median = 0, low = 0, high = 0; };
Interval interval_of(std::vector<double> samples);
// of neighbours: what hits both leaves it as it is
Interval ratio_of(const std::vector<double>& above, const std::vector<double>& below);

double seconds_of(const std::function<void()>& work);
double thread_seconds_of(const std::function<void()>& work);  // that this thread has a core: what else runs there is
                                                              // left out

}  // namespace tilec::runtime
