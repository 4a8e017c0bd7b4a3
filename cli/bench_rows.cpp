#include "cli/bench_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/near_file.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace tilec::cli {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& path, std::size_t line, std::size_t column, const std::string& why) {
  throw runtime::argument_error(lang::messages::unreadable, fmt::format("{}:{}:{}", path, line, column), why)
      .hint("a row is written by `tilec bench FILE NAME=VALUE… --json`");
}

// A row has lists of peers; what is nested without end would be printed without end.
bool only_shallow(int depth, json::parse_event_t, json&) {
  constexpr int deepest = 8;
  if (depth > deepest) throw json::other_error::create(500, "nested", nullptr);
  return true;
}

// A row, or the first thing that is missing in it.
BenchRow row_of(const json& object, const std::function<void(const std::string&)>& refused) {
  if (!object.is_object()) refused("a row is an object, `{ … }`");
  const auto field = [&](const char* name, bool (json::*is)() const, const char* what) -> const json& {
    const auto at = object.find(name);
    if (at == object.end()) refused(fmt::format("the row has no `{}`", name));
    if (!((*at).*is)()) refused(fmt::format("`{}` is {}, where {} belongs", name, at->dump(), what));
    return *at;
  };
  const auto time = [&](const char* name) {
    const double seconds = field(name, &json::is_number, "a number of seconds").get<double>();
    if (!(seconds > 0)) refused(fmt::format("`{}` is {}, and a call takes longer", name, seconds));
    return seconds;
  };
  BenchRow row;
  row.name = field("name", &json::is_string, "a text").get<std::string>();
  row.target = field("target", &json::is_string, "a text").get<std::string>();
  row.threads = field("threads", &json::is_number_integer, "a whole number").get<int>();
  for (const json& input : field("inputs", &json::is_array, "a list of texts")) {
    if (!input.is_string()) refused(fmt::format("`inputs` holds {}, where a text belongs", input.dump()));
    row.inputs.push_back(input.get<std::string>());
  }
  row.seconds = {time("median"), time("low"), time("high")};
  if (!(row.seconds.low <= row.seconds.median && row.seconds.median <= row.seconds.high))
    refused("`low`, `median` and `high` are not in this order");
  return row;
}

}  // namespace

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.4g} us", seconds * 1e6)
      : seconds < 1     ? fmt::format("{:.4g} ms", seconds * 1e3)
                        : fmt::format("{:.4g} s", seconds);
}

std::string BenchRow::title() const {
  return fmt::format("{}{}{} {}{}", name, inputs.empty() ? "" : " ", fmt::join(inputs, " "), target,
      threads == 0 ? "" : fmt::format(" {} thread{}", threads, threads == 1 ? "" : "s"));
}

std::vector<BenchRow> read_bench_rows(const std::string& path) {
  const std::string text = with_near_file(path, [&] { return runtime::read_text(path); });
  std::vector<BenchRow> rows;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1, ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      rows.push_back(row_of(json::parse(line, only_shallow),
          [&](const std::string& why) { refuse(path, number, line.find_first_not_of(" \t") + 1, why); }));
    } catch (const json::parse_error& fault) {
      refuse(path, number, std::max<std::size_t>(fault.byte, 1), "this is no JSON");
    } catch (const json::exception&) {
      refuse(path, number, 1, "it has a number that no f64 holds, or is nested deeper than a row is");
    }
  }
  if (rows.empty()) refuse(path, 1, 1, "it holds no row");
  return rows;
}

}  // namespace tilec::cli
