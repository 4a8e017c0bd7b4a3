// `tilec cache`: where compiled programs are kept, and how much room they take; `tilec cache clear` empties it.
#include "runtime/cache.h"

#include <fmt/core.h>

#include "cli/session.h"

namespace tilec::cli {

namespace {

std::string described(const runtime::Cache::Content& content) {
  const std::string plans = content.plans == 0 ? ""
      : content.plans == 1                     ? ", 1 plan that was tuned"
                                               : fmt::format(", {} plans that were tuned", content.plans);
  return fmt::format("{}{}, {} bytes", content.entries == 1 ? "1 program" : fmt::format("{} programs", content.entries),
      plans, content.bytes);
}

}  // namespace

int cache_command(const Options& options) {
  const bool clears = !options.words.empty() && options.words[0] == "clear";
  if (options.words.size() > (clears ? 1 : 0))
    throw UsageError{fmt::format("`{}` is no part of `tilec cache`", options.words[clears ? 1 : 0]),
        "write `tilec cache` or `tilec cache clear`"};
  const std::shared_ptr<const runtime::Cache> cache = runtime::Cache::usual();
  if (!cache) {
    fmt::print("nothing is kept: TILEC_CACHE is `off`, or there is no home\n");
    return success;
  }
  if (clears) fmt::print("{}: removed {}\n", cache->folder(), described(cache->clear()));
  else fmt::print("{}: {}, of at most {}\n", cache->folder(), described(cache->content()), cache->limit());
  return success;
}

}  // namespace tilec::cli
