#include "report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "block.h"

namespace simulated {

namespace {

constexpr unsigned warp = 32, sector = 32, banks = 32;

struct Request { std::array<std::uint64_t, warp> address; std::uint32_t lanes; unsigned bytes; bool write, shared; };
struct Site { std::vector<Request> requests; std::array<std::uint32_t, warp> next{}; };
std::array<std::unordered_map<std::uint64_t, Site>, most_threads / warp> warps;

// The last places that a thread has called aligned, and whether it has read or written them since.
struct Wide { std::uint64_t begin = 0, bytes = 0; bool seen[2] = {}; };
struct Wides { std::array<Wide, 16> all; std::size_t next = 0; };
std::array<Wides, most_threads> wides;

struct Global { std::uint64_t requests = 0, sectors = 0, bytes = 0; };
struct Totals { Global loads, stores; std::uint64_t wavefronts = 0, least = 0, moved = 0; } totals;
std::unordered_set<std::uint64_t> sectors_of_block[2];  // read, written

// 128 bytes of the banks at a time: all lanes where each has 4 bytes at most, a half of them where each has 8, a
// quarter with 16. Words of one bank come one after another.
void count_shared(const Request& r) {
  const unsigned lanes = r.bytes <= 4 ? warp : std::max(1u, 4 * warp / r.bytes);
  for (unsigned first = 0; first < warp; first += lanes) {
    std::array<std::vector<std::uint64_t>, banks> words;
    std::size_t most = 0;
    for (unsigned lane = first; lane < first + lanes; ++lane) {
      if (!(r.lanes >> lane & 1)) continue;
      for (std::uint64_t word = r.address[lane] / 4, end = (r.address[lane] + r.bytes + 3) / 4; word < end; ++word) {
        std::vector<std::uint64_t>& in_bank = words[word % banks];
        if (std::ranges::count(in_bank, word) == 0) in_bank.push_back(word);
        most = std::max(most, in_bank.size());
      }
    }
    totals.wavefronts += most, totals.least += most > 0;
  }
}

void count_global(const Request& r) {
  std::vector<std::uint64_t> sectors, addresses;
  for (unsigned lane = 0; lane < warp; ++lane) {
    if (!(r.lanes >> lane & 1)) continue;
    addresses.push_back(r.address[lane]);
    for (std::uint64_t s = r.address[lane] / sector; s <= (r.address[lane] + r.bytes - 1) / sector; ++s)
      sectors.push_back(s);
  }
  for (std::vector<std::uint64_t>* all : {&sectors, &addresses}) {
    std::ranges::sort(*all);
    all->erase(std::unique(all->begin(), all->end()), all->end());
  }
  Global& g = r.write ? totals.stores : totals.loads;
  ++g.requests, g.sectors += sectors.size(), g.bytes += addresses.size() * r.bytes;
  sectors_of_block[r.write].insert(sectors.begin(), sectors.end());
}

}  // namespace

bool reports() {
  static const bool asked = std::getenv("SIMULATED_REPORT") != nullptr;
  return asked;
}

std::uint64_t most_blocks() {
  static const char* const text = std::getenv("SIMULATED_BLOCKS");
  static const std::uint64_t most = text ? std::max(1ull, std::strtoull(text, nullptr, 10)) : ~0ull;
  return most;
}

void note_wide(const void* at, std::size_t bytes) {
  Wides& w = wides[running];
  w.all[w.next++ % w.all.size()] = {reinterpret_cast<std::uintptr_t>(at), bytes, {}};
}

void note(std::uint64_t site, const void* at, std::size_t bytes, bool write, bool shared) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  Wides& w = wides[running];
  for (std::size_t k = 1; k <= w.all.size(); ++k) {      // the newest first
    Wide& wide = w.all[(w.next - k) % w.all.size()];
    if (address - wide.begin >= wide.bytes) continue;
    if (std::exchange(wide.seen[write], true)) return;
    at = reinterpret_cast<const void*>(wide.begin), bytes = wide.bytes;
    break;
  }
  const unsigned lane = running % warp;
  Site& s = warps[running / warp][4 * site + 2 * write + shared];
  const std::uint32_t n = s.next[lane]++;
  if (n == s.requests.size()) s.requests.push_back({{}, 0, static_cast<unsigned>(bytes), write, shared});
  s.requests[n].address[lane] = reinterpret_cast<std::uintptr_t>(at);
  s.requests[n].lanes |= 1u << lane;
}

void end_of_phase() {
  for (auto& sites : warps)
    for (auto& [site, s] : sites) {
      for (const Request& r : s.requests) r.shared ? count_shared(r) : count_global(r);
      s.requests.clear(), s.next.fill(0);
    }
}

void end_of_block() {
  end_of_phase();
  wides.fill({});
  for (auto& all : sectors_of_block) totals.moved += all.size() * sector, all.clear();
}

void end_of_launch(const Launch& launch, std::uint64_t blocks, std::uint64_t sampled) {
  for (auto& sites : warps) sites.clear();
  if (FILE* file = std::fopen(std::getenv("SIMULATED_REPORT"), "a")) {
    const auto global = [&](const char* name, const Global& g) {
      std::fprintf(file, "\"%s\": {\"requests\": %llu, \"sectors\": %llu, \"bytes\": %llu}, ", name, 0ull + g.requests,
          0ull + g.sectors, 0ull + g.bytes);
    };
    std::fprintf(file, "{\"kernel\": \"%s\", \"blocks\": %llu, \"sampled\": %llu, \"threads\": %u, ",
        launch.kernel->name, 0ull + blocks, 0ull + sampled, launch.threads);
    global("loads", totals.loads), global("stores", totals.stores);
    std::fprintf(file, "\"shared\": {\"wavefronts\": %llu, \"least\": %llu}, \"moved\": %llu, \"arguments\": [",
        0ull + totals.wavefronts, 0ull + totals.least, 0ull + totals.moved);
    for (std::size_t k = 0; k < launch.arguments.size(); ++k)
      std::fprintf(file, "%s%llu", k ? ", " : "", 0ull + launch.arguments[k]);
    std::fprintf(file, "]}\n");
    std::fclose(file);
  }
  totals = {};
}

}  // namespace simulated
