// `tilec test FILE…`: runs the cases that the comments of the files hold; a line for each that fails, then
// `N passed, N failed`.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <regex>
#include <thread>

#include "cli/cases.h"
#include "cli/check_case.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "lang/render.h"

namespace tilec::cli {

namespace {

struct Job { const CaseFile* file; Case one; std::string title; Verdict verdict = {}; double milliseconds = 0; };

// `softmax.tile:3:4: softmax: rows sum to one`
std::string title_of(const CaseFile& file, const Case& one) {
  const lang::Position at = lang::position(file.sources[0], one.span.begin);
  std::string title = fmt::format("{}:{}:{}", file.sources[0].name, at.line, at.column);
  if (one.function) title += fmt::format(": {}", *one.function);
  if (!one.name.empty()) title += fmt::format(": {}", one.name);
  return title;
}

struct Collected { std::deque<CaseFile> files; std::vector<Job> jobs; std::size_t malformed = 0, seen = 0; };

Collected collect(const Options& options) {
  Collected all;
  std::optional<std::regex> filter;
  try {
    if (options.filter) filter.emplace(*options.filter);
  } catch (const std::regex_error& fault) {
    throw UsageError{fmt::format("`{}` is no regular expression: {}", *options.filter, fault.what()), {}};
  }
  for (const std::string& path : options.words) {
    Session session(options, path);
    CaseFile& file = all.files.emplace_back(CaseFile{session.sources, session.file, session.diagnostics});
    lang::Diagnostics malformed;
    std::vector<Case> cases = read_cases(file.sources[0], file.file ? &*file.file : nullptr, malformed);
    std::erase_if(cases, [&](const Case& one) { return session.entry_name && one.function != session.entry_name; });
    show(malformed, file.sources, options);
    all.malformed += malformed.all().size();
    all.seen += cases.size() + malformed.all().size();
    for (Case& one : cases) {
      const std::string title = title_of(file, one);
      if (!filter || std::regex_search(title, *filter)) all.jobs.push_back({&file, std::move(one), title});
    }
  }
  return all;
}

// Cases share nothing, so that each worker takes the next.
void run_all(std::vector<Job>& jobs, const Options& options, const codegen::Target& target) {
  std::atomic<std::size_t> next = 0, done = 0;
  ProgressLine line(!options.quiet);
  const std::thread::id first = std::this_thread::get_id();  // which prints
  std::exception_ptr fault;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    try {
      for (std::size_t k = next++; k < jobs.size() && !failed; k = next++) {
        const auto start = std::chrono::steady_clock::now();
        jobs[k].verdict = check_case(*jobs[k].file, jobs[k].one, target);
        jobs[k].milliseconds =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        ++done;
        if (std::this_thread::get_id() == first)
          line("testing", static_cast<double>(done) / static_cast<double>(jobs.size()));
      }
    } catch (...) {
      if (!failed.exchange(true)) fault = std::current_exception();
    }
  };
  const std::size_t wanted = options.threads > 0 ? static_cast<std::size_t>(options.threads)
                                                 : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> workers;
  for (std::size_t k = 1; k < std::min(wanted, jobs.size()); ++k) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  if (fault) std::rethrow_exception(fault);
}

void print(const Job& job, const Options& options) {
  if (job.verdict.kind == Verdict::Passed) {
    if (options.verbose) fmt::print("{}: passed ({:.0f} ms)\n", job.title, job.milliseconds);
    return;
  }
  fmt::print("{}: {}\n{}", job.title, job.verdict.kind == Verdict::Failed ? "failed" : "malformed", job.verdict.text);
}

}  // namespace

int test_command(const Options& options) {
  if (options.words.empty()) throw UsageError{"no file of Tile is named", "write `tilec test FILE`"};
  Collected all = collect(options);
  if (all.seen == 0)
    throw UsageError{
        "the files hold no test case", "one begins with the comment `// ==`; docs/testing.md shows how it goes on"};
  if (all.jobs.empty() && all.malformed == 0)
    throw UsageError{fmt::format("no test case matches `{}`", options.filter.value_or("")), {}};
  run_all(all.jobs, options, target_of(options.target));
  std::size_t passed = 0, failed = 0;
  for (const Job& job : all.jobs) {
    print(job, options);
    passed += job.verdict.kind == Verdict::Passed;
    failed += job.verdict.kind == Verdict::Failed;
    all.malformed += job.verdict.kind == Verdict::Malformed;
  }
  fmt::print("{} passed, {} failed\n", passed, failed + all.malformed);
  return all.malformed > 0 ? usage_error : failed > 0 ? program_error : success;
}

}  // namespace tilec::cli
