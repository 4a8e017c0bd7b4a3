// Pictures of a report as inline SVG. Colours are those of the page (report.css): class number k is `--c: k`.
#pragma once

#include <string>
#include <vector>

#include "poly/projection.h"

namespace tilec::cli::report {

// Points of a window, in the colours of their classes; `titles` are those of the classes.
std::string draw(const poly::Projection& projection, const std::vector<std::string>& titles, const std::string& label);
std::string caption(const poly::Projection& projection);  // what the window leaves out; empty: nothing

// Operations a second over operations a byte, both logarithmic.
struct Roofline {
  struct Line { std::string name; double rate = 0; };    // operations, or bytes, a second
  // without a name: not labelled
  struct Point { std::string name, title; double intensity = 0, rate = 0; bool measured = false; };
  std::vector<Line> arithmetic, memory;
  std::vector<Point> points;
};
std::string draw(const Roofline& roofline, const std::string& label);

}  // namespace tilec::cli::report
