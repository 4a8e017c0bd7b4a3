// `tilec compare OLD NEW`: of two files of `tilec bench --json`, how much faster each row has become.
//
//   conv I=1x56x56x64xf32 … cpu    412.1 us    371.9 us   1.108   1.09 to 1.13   faster
//
// A change is marked where the intervals of the medians lie apart. Between two processes a call may take another time
// though nothing has changed (where memory lies, what else runs); so a row may stand in a file several times, from
// several processes, and its interval is then the widest of theirs.
#include <fmt/format.h>

#include <algorithm>

#include "cli/bench_rows.h"
#include "cli/session.h"

namespace tilec::cli {

namespace {

struct Row { std::string title; Interval seconds; };

// Rows in order, those of one title as one.
std::vector<Row> rows_of(const std::string& path) {
  const std::vector<BenchRow> read = read_bench_rows(path);
  std::vector<Row> rows;
  for (const BenchRow& row : read) {
    if (std::ranges::count(rows, row.title(), &Row::title) > 0) continue;
    std::vector<double> medians;
    Interval all = row.seconds;
    for (const BenchRow& other : read) {
      if (other.title() != row.title()) continue;
      medians.push_back(other.seconds.median);
      all.low = std::min(all.low, other.seconds.low), all.high = std::max(all.high, other.seconds.high);
    }
    std::ranges::sort(medians);
    all.median = medians[medians.size() / 2];
    rows.push_back({row.title(), all});
  }
  return rows;
}

}  // namespace

int compare_command(const Options& options) {
  if (options.words.size() != 2)
    throw UsageError{fmt::format("two files are compared, and {} named",
                         options.words.empty()           ? "none is"
                             : options.words.size() == 1 ? "one is"
                                                         : fmt::format("{} are", options.words.size())),
        "write `tilec compare old.json new.json`"};
  const std::string &before = options.words[0], &after = options.words[1];
  const std::vector<Row> old_rows = rows_of(before), new_rows = rows_of(after);
  std::size_t width = 0, faster = 0, slower = 0, same = 0;
  for (const Row& row : old_rows) width = std::max(width, row.title.size());
  std::string text;
  for (const Row& row : old_rows) {
    const auto now = std::ranges::find(new_rows, row.title, &Row::title);
    if (now == new_rows.end()) {
      text += fmt::format("{:<{}}  only in {}\n", row.title, width, before);
      continue;
    }
    const Interval &was = row.seconds, &is = now->seconds;
    const bool up = is.high < was.low, down = is.low > was.high;
    (up ? faster : down ? slower : same) += 1;
    text += fmt::format("{:<{}}  {:>9}  {:>9}  {:6.3f}  {:.3f} to {:.3f}{}\n", row.title, width, time_text(was.median),
        time_text(is.median), was.median / is.median, was.low / is.high, was.high / is.low,
        up         ? "  faster"
            : down ? "  slower"
                   : "");
  }
  for (const Row& row : new_rows)
    if (std::ranges::count(old_rows, row.title, &Row::title) == 0)
      text += fmt::format("{:<{}}  only in {}\n", row.title, width, after);
  if (faster + slower + same == 0)
    throw UsageError{fmt::format("no row of `{}` is in `{}`", before, after),
        "rows are of one function, of inputs of one form, of one target and number of threads"};
  put(fmt::format(
          "{}{} faster, {} slower, {} without a change that their intervals show\n", text, faster, slower, same),
      options);
  return slower > 0 ? program_error : success;
}

}  // namespace tilec::cli
