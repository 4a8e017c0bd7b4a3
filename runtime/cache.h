// Compiled programs on disk, so that a process compiles nothing that one before it did.
//
//   cache->find(text, …)   ⇒   what an equal text was compiled to, in this process or another; none
//   cache->keep(text, compiled, …)
//   cache->plan_for(key, threads, …)   ⇒   a plan that `tilec tune` found
//
// A folder with a file for each: it appears whole or not at all, and holds the text itself, so a hash that two texts
// share does no harm. A file that is cut off, changed, of another owner or writable by others is no entry: it is warned
// of once (W0565) and compiled anew. What cannot be written is not kept. Beyond its limit the entries that were not
// used for longest go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lang/diagnostic.h"
#include "runtime/compiled.h"

namespace tilec::runtime {

std::string hash_of(const std::string& text);          // 32 digits

class Cache {
 public:
  explicit Cache(std::string folder, std::uint64_t limit = usual_limit()) : folder_(std::move(folder)), limit_(limit) {}
  // The folder of TILEC_CACHE, else tilec in XDG_CACHE_HOME, else .cache/tilec in HOME. Null: TILEC_CACHE is `off`, or
  // there is no home.
  static std::shared_ptr<const Cache> usual();
  static std::uint64_t usual_limit();                  // bytes: TILEC_CACHE_LIMIT, else 1 GiB

  std::optional<Compiled> find(const std::string& text, lang::Diagnostics& diagnostics) const;
  void keep(const std::string& text, const Compiled& compiled, lang::Diagnostics& diagnostics) const;

  // Plans that were found by measuring (tune.h), for so many threads; false where it cannot be written.
  std::optional<std::string> plan_for(
      const std::string& key, std::int64_t threads, lang::Diagnostics& diagnostics) const;
  bool keep_plan(
      const std::string& key, std::int64_t threads, const std::string& plan, lang::Diagnostics& diagnostics) const;

  struct Content { std::size_t entries = 0, plans = 0; std::uint64_t bytes = 0; };
  Content content() const;
  Content clear() const;                               // what is gone
  const std::string& folder() const { return folder_; }
  std::uint64_t limit() const { return limit_; }

 private:
  bool is_ours(lang::Diagnostics& diagnostics) const;
  std::string path_of(const std::string& text) const;
  std::string place_of_plan(const std::string& key, std::int64_t threads) const;
  std::optional<std::string> read(const std::string& path, lang::Diagnostics& diagnostics) const;
  bool write(const std::string& path, const std::string& bytes, lang::Diagnostics& diagnostics) const;
  void shrink() const;

  std::string folder_;
  std::uint64_t limit_;
};

}  // namespace tilec::runtime
