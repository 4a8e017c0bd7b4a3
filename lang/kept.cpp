#include "lang/kept.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

namespace tilec::lang {
namespace {

constexpr std::size_t most_kept = 16, largest_kept = 1'000'000;  // files; bytes of text of each, with its imports

struct Kept {
  std::mutex mutex;
  std::list<std::shared_ptr<const KeptImport>> all;    // the last used first
};
Kept& kept() {
  static Kept& here = *new Kept;                       // never destroyed: a thread may load while the process ends
  return here;
}

}  // namespace

std::shared_ptr<const KeptImport> kept_import(
    const Source& source, std::uint32_t number, const FilesByName& before) {
  const std::lock_guard lock(kept().mutex);
  auto& all = kept().all;
  const auto at = std::find_if(all.begin(), all.end(), [&](const auto& each) {
    const Source& own = each->sources.front();
    return each->number == number && own.name == source.name && own.text == source.text && each->before == before;
  });
  if (at == all.end()) return nullptr;
  all.splice(all.begin(), all, at);
  return all.front();
}

void keep_import(KeptImport made) {
  std::size_t bytes = 0;
  for (const Source& source : made.sources) bytes += source.text.size();
  if (bytes > largest_kept) return;
  auto added = std::make_shared<const KeptImport>(std::move(made));
  std::shared_ptr<const KeptImport> dropped;           // destroyed without the lock
  const std::lock_guard lock(kept().mutex);
  auto& all = kept().all;
  all.push_front(std::move(added));
  if (all.size() <= most_kept) return;
  dropped = std::move(all.back());
  all.pop_back();
}

}  // namespace tilec::lang
