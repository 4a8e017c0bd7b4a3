#include "lang/kept.h"

#include <utility>

#include "lang/recent.h"

namespace tilec::lang {

static const std::vector<Source>& sources_of(const KeptImport& made) { return made.sources; }

namespace {

Recent<KeptImport>& kept() {
  static auto& here = *new Recent<KeptImport>;         // never destroyed: a thread may load while the process ends
  return here;
}

}  // namespace

std::shared_ptr<const KeptImport> kept_import(
    const Source& source, std::uint32_t number, const FilesByName& before) {
  return kept().find([&](const KeptImport& each) {
    const Source& own = each.sources.front();
    return each.number == number && own.name == source.name && own.text == source.text && each.before == before;
  });
}

void keep_import(KeptImport made) { kept().add(std::move(made)); }

}  // namespace tilec::lang
