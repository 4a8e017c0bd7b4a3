#include "cli/report/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/report/html.h"
#include "codegen/figures.h"

namespace tilec::cli::report {

namespace {

using codegen::grouped;

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor, escaped(text));
}

std::string opened(double width, double height, const std::string& label) {
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\"><title>{2}</title>",
      width, height, escaped(label));
}

// ---- points of a domain

constexpr double cell = 16, left = 44, below = 34, above = 18;

std::int64_t shown(const poly::Projection& p, std::size_t axis) {
  return axis < p.axes.size() ? std::max<std::int64_t>(p.axes[axis].shown, 0) : 1;
}

}  // namespace

std::string caption(const poly::Projection& projection) {
  std::string text;
  for (const poly::Axis& axis : projection.axes)
    if (axis.shown < axis.extent)
      text += fmt::format(
          "{}{} of {} values of {}", text.empty() ? "the first " : ", ", axis.shown, grouped(axis.extent), axis.name);
  if (!projection.whole)
    text += fmt::format("{}not every point was looked at, there are too many", text.empty() ? "" : "; ");
  return text;
}

std::string draw(const poly::Projection& projection, const std::vector<std::string>& titles, const std::string& label) {
  const auto across = shown(projection, 0), up = shown(projection, 1);
  std::size_t longest = 0;
  for (const poly::Axis& axis : projection.axes) longest = std::max(longest, axis.name.size());
  const double width = std::max(
                   left + cell * static_cast<double>(across) + 10, left + 20 + 7 * static_cast<double>(longest)),
               bottom = above + cell * static_cast<double>(up);
  const auto x = [](std::int64_t k) { return left + cell * (static_cast<double>(k) + 0.5); };
  const auto y = [&](std::int64_t k) { return bottom - cell * (static_cast<double>(k) + 0.5); };
  const auto low = [&](std::size_t axis) { return axis < projection.axes.size() ? projection.axes[axis].low : 0; };
  std::string svg = opened(width, bottom + below, label) + "<path class=\"grid\" d=\"";
  for (std::int64_t i = 0; i < across; ++i)
    for (std::int64_t j = 0; j < up; ++j) svg += fmt::format("M{:.0f} {:.0f}h0", x(i), y(j));
  svg += "\"/>";
  std::map<std::size_t, std::string> of_class;
  for (const auto& [place, number] : projection.points)
    of_class[number] += fmt::format("M{:.0f} {:.0f}h0", x(place[0] - low(0)), y(place[1] - low(1)));
  for (const auto& [number, path] : of_class)
    svg += fmt::format("<path class=\"points\" style=\"--c:{}\" d=\"{}\"><title>{}</title></path>", number, path,
        escaped(number < titles.size() ? titles[number] : ""));
  const std::int64_t every = across > 12 ? 4 : across > 6 ? 2 : 1, every_up = up > 12 ? 4 : up > 6 ? 2 : 1;
  for (std::int64_t i = 0; i < across; i += every)
    svg += text_at(x(i), bottom + 12, "middle", fmt::format("{}", low(0) + i));
  if (projection.axes.size() > 1)
    for (std::int64_t j = 0; j < up; j += every_up)
      svg += text_at(left - 4, y(j) + 4, "end", fmt::format("{}", low(1) + j));
  svg += text_at(left, bottom + 28, "start", projection.axes[0].name + " →");
  if (projection.axes.size() > 1) svg += text_at(2, 10, "start", "↑ " + projection.axes[1].name);
  return svg + "</svg>";
}

// ---- roofline

namespace {

struct Scale {
  double low, high, from, to;                          // logarithms to 10, and places
  double operator()(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }
};

std::string power(int exponent, const char* unit) { return codegen::scaled(std::pow(10.0, exponent), unit); }

Scale scale_of(std::vector<double> values, double from, double to, bool whole) {
  std::erase_if(values, [](double v) { return !(v > 0) || !std::isfinite(v); });
  if (values.empty()) values.push_back(1);
  const auto [least, most] = std::ranges::minmax(values);
  double low = std::log10(least) - 0.15, high = std::log10(most) + 0.15;
  if (whole) low = std::floor(low), high = std::ceil(high);
  return {low, std::max(high, low + 1), from, to};
}

class Chart {
 public:
  explicit Chart(const Roofline& roofline) : of_(roofline) {
    std::vector<double> across, up;
    for (const Roofline::Point& point : of_.points) across.push_back(point.intensity), up.push_back(point.rate);
    double peak = 0;
    for (const Roofline::Line& line : of_.arithmetic) up.push_back(line.rate), peak = std::max(peak, line.rate);
    for (const Roofline::Line& line : of_.memory)
      if (peak > 0) across.push_back(peak / line.rate), across.push_back(peak / line.rate / 30);
    x_ = scale_of(across, 76, 690, true);
    y_ = scale_of(up, 330, 14, true);
  }

  std::string draw(const std::string& label) const {
    std::string svg = opened(720, 380, label) + axes();
    for (std::size_t k = 0; k < of_.memory.size(); ++k) svg += slope(of_.memory[k], 6 + 130 * static_cast<double>(k));
    for (const Roofline::Line& line : of_.arithmetic) svg += flat(line);
    std::map<std::pair<int, int>, std::pair<std::string, std::size_t>> names;  // of points that lie upon one another
    for (const Roofline::Point& point : of_.points) {
      svg += drawn(point);
      if (point.name.empty()) continue;
      auto& [text, count] = names[{static_cast<int>(x_(point.intensity) / 8), static_cast<int>(y_(point.rate) / 8)}];
      if (++count <= 6) text += (text.empty() ? "" : ", ") + point.name;
      if (count == 7) text += " …";
    }
    for (const auto& [place, name] : names)
      svg += "<g class=\"predicted\">" + text_at(8.0 * place.first + 14, 8.0 * place.second + 8, "start", name.first) +
          "</g>";
    return svg + "</svg>";
  }

 private:
  double peak() const {
    double most = std::pow(10.0, y_.high);
    if (!of_.arithmetic.empty()) most = std::ranges::max_element(of_.arithmetic, {}, &Roofline::Line::rate)->rate;
    return most;
  }

  std::string axes() const {
    std::string svg = "<path class=\"grid-line\" d=\"";
    for (int e = static_cast<int>(std::ceil(x_.low)); e <= std::floor(x_.high); ++e)
      svg += fmt::format("M{:.1f} 14V330", x_(std::pow(10.0, e)));
    for (int e = static_cast<int>(std::ceil(y_.low)); e <= std::floor(y_.high); ++e)
      svg += fmt::format("M76 {:.1f}H690", y_(std::pow(10.0, e)));
    svg += "\"/>";
    for (int e = static_cast<int>(std::ceil(x_.low)); e <= std::floor(x_.high); ++e)
      svg += text_at(x_(std::pow(10.0, e)), 346, "middle", fmt::format("{:g}", std::pow(10.0, e)));
    for (int e = static_cast<int>(std::ceil(y_.low)); e <= std::floor(y_.high); ++e)
      svg += text_at(70, y_(std::pow(10.0, e)) + 4, "end", power(e, ""));
    return svg + text_at(383, 368, "middle", "operations a byte that must move") +
        fmt::format(
            "<text transform=\"translate(14 172) rotate(-90)\" text-anchor=\"middle\">operations a second</text>");
  }

  // What a level of memory allows: from the left edge or the bottom to the highest roof.
  std::string slope(const Roofline::Line& line, double indent) const {
    const double right = std::min(peak() / line.rate, std::pow(10.0, x_.high));
    const double start = std::max(std::pow(10.0, x_.low), std::pow(10.0, y_.low) / line.rate);
    if (start >= right) return {};
    const double x = x_(start), y = y_(start * line.rate),
                 angle = std::atan2(y_(right * line.rate) - y, x_(right) - x) * 180 / 3.14159265;
    return fmt::format(
        "<path class=\"roof\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/><text transform=\"translate({:.1f} {:.1f}) rotate({:.1f})\" dx=\"{:.0f}\" dy=\"-4\">{}</text>",
        x, y, x_(right), y_(right * line.rate), x, y, angle,
        std::hypot(x_(right) - x, y_(right * line.rate) - y) < indent + 120 ? 6 : indent, escaped(line.name));
  }

  std::string flat(const Roofline::Line& line) const {
    const double start = of_.memory.empty()
        ? std::pow(10.0, x_.low)
        : line.rate / std::ranges::max_element(of_.memory, {}, &Roofline::Line::rate)->rate;
    const double from = std::clamp(x_(start), 76.0, 690.0);
    return fmt::format("<path class=\"roof\" d=\"M{:.1f} {:.1f}H690\"/>", from, y_(line.rate)) +
        text_at(690, y_(line.rate) - 5, "end", line.name);
  }

  std::string drawn(const Roofline::Point& point) const {
    return fmt::format("<g class=\"{}\"><title>{}</title><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/></g>",
        point.measured ? "measured" : "predicted", escaped(point.title), x_(point.intensity), y_(point.rate));
  }

  const Roofline& of_;
  Scale x_{}, y_{};
};

}  // namespace

std::string draw(const Roofline& roofline, const std::string& label) { return Chart(roofline).draw(label); }

}  // namespace tilec::cli::report
