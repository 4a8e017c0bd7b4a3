#include "runtime/capi/shared.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

namespace tilec::capi {
namespace {

template <class T> class Shared {
 public:
  template <class Make> std::shared_ptr<const T> get(const std::string& key, Make make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<const T>& place = known_[key];
    std::shared_ptr<const T> one = place.lock();
    if (!one) place = one = make();
    return one;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const T>> known_;
};

// Of equal files there is one, whose address tells it from others: a Callable holds its file, so none of another with
// this address is known.
std::string key_of(
    const runtime::Loaded& loaded, const codegen::Request& r, std::size_t kernels, const runtime::Cache* cache) {
  std::string key = fmt::format("{}\n{}\n{} {}{}|{}|{}|{}\n", fmt::ptr(&loaded), r.signature.function.value_or("-"),
      r.target.name, r.threads_hint, r.checked ? " checked" : "", r.sizes.size(), kernels,
      cache != nullptr ? cache->folder() : "-");
  for (const codegen::Derivative& d : r.derivatives)
    key += fmt::format("{}{} {}|{}\n",
        d.batch         ? "batch"
            : d.forward ? "forward"
                        : "reverse",
        d.values ? "+" : "", fmt::join(d.of, ","), fmt::join(d.wrt, ","));
  key += fmt::format("{}, {}, room {}\n", r.pair ? "pair" : "one", r.plan ? "planned" : "chosen", r.room.value_or(-1));
  for (const auto& [name, value] : r.sizes) key += fmt::format("{}={};", name, value);
  for (const auto& [name, rank] : r.signature.ranks) key += fmt::format("{}...={};", name, rank);
  for (const auto& define : r.signature.defines)
    key += std::visit([&](const auto& v) { return fmt::format("{}={};", define.name, v); }, define.value);
  return key;
}

}  // namespace

std::shared_ptr<const runtime::Loaded> shared_file(runtime::Loaded made) {
  static Shared<runtime::Loaded> shared;
  std::string key;
  for (const lang::Source& source : made.sources) key += source.name + '\0' + source.text + '\0';
  for (const runtime::Resolved& import : made.imports)
    key += import.path + '\0' + import.importer + '\0' + import.name + '\0';
  return shared.get(key, [&] { return std::make_shared<const runtime::Loaded>(std::move(made)); });
}

std::shared_ptr<const runtime::Callable> shared_callable(const std::shared_ptr<const runtime::Loaded>& loaded,
    const codegen::Request& request, std::size_t kernels, const std::shared_ptr<const runtime::Cache>& cache) {
  static Shared<runtime::Callable> shared;
  return shared.get(key_of(*loaded, request, kernels, cache.get()),
      [&] { return std::make_shared<const runtime::Callable>(loaded, request, kernels, cache); });
}

}  // namespace tilec::capi
