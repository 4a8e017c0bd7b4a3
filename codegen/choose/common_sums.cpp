#include "codegen/choose/common_sums.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "codegen/choose/factors.h"
#include "codegen/model/sums.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/halves.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using poly::Program;
using poly::Statement;
using Indices = std::vector<std::size_t>;

// A statement as halves, and the form of what is summed first: as it is, and in f64 where it is f32.
struct Cut {
  std::size_t node;
  Indices summed;
  Halves halves;
  std::string form, wide_form;
  bool is_wide() const { return wide_form.empty(); }
  const std::string& widest() const { return is_wide() ? form : wide_form; }
};

class Search {
 public:
  Search(Program& program, const Target& target)
      : program_(program), target_(target), known_(program.tensors.size()) {}

  std::vector<CommonSum> at(std::size_t n) {
    const std::set<TensorId> read = worth_a_look(n);
    if (read.size() < 2) return {};
    std::vector<Cut> others;
    for (std::size_t m = n + 1; m < program_.nodes.size(); ++m) {
      std::set<TensorId> both;
      std::ranges::set_intersection(read, worth_a_look(m), std::inserter(both, both.end()));
      if (both.size() < 2) continue;
      std::ranges::move(cuts_of(m), std::back_inserter(others));
    }
    if (others.empty()) return {};
    std::vector<const Cut*> best;
    double spared = model::points_in_common;
    const std::vector<Cut> own = cuts_of(n);
    for (const Cut& first : own) {
      std::vector<const Cut*> equal{&first};
      for (const Cut& other : others)
        if (reads_the_same(first, other) && equal.back()->node != other.node) equal.push_back(&other);
      if (equal.size() < 2) continue;
      const auto [separate, together] = costs(equal);
      if (together <= model::common_share * separate && separate - together > spared)
        best = std::move(equal), spared = separate - together;
    }
    std::vector<CommonSum> all;
    for (const Cut* cut : best) all.push_back({cut->node, cut->summed});
    return all;
  }

 private:
  // What a statement reads that may be worth it.
  std::set<TensorId> worth_a_look(std::size_t n) const {
    const auto* s = std::get_if<Statement>(&program_.nodes[n]);
    std::set<TensorId> ids;
    if (!s || s->aggregation != poly::Aggregation::Sum || points(*s) < model::points_in_common) return ids;
    for (const poly::Access& read : s->reads) ids.insert(read.tensor);
    return ids;
  }

  std::vector<Cut> cuts_of(std::size_t n) {
    const auto& s = std::get<Statement>(program_.nodes[n]);
    std::vector<Cut> cuts;
    Indices sums;
    for (std::size_t k = 0; k < s.indices.size(); ++k) if (!is_output_index(s, k)) sums.push_back(k);
    const auto product = product_of(s);
    if (!product || sums.size() > most_sums_tried) return cuts;
    for (std::size_t subset = 1; subset < (std::size_t{1} << sums.size()); ++subset) {
      Indices summed;
      for (std::size_t k = 0; k < sums.size(); ++k) if (subset >> k & 1) summed.push_back(sums[k]);
      const auto halves = [&](bool wide) {
        return halves_of_sum(program_, s, *product, static_cast<TensorId>(known_), summed,
            {.quotients = true, .others = true, .wide = wide});
      };
      auto as_it_is = halves(false);
      if (!as_it_is || bytes_of(*as_it_is) > static_cast<double>(model::largest_temporary)) continue;
      Cut cut{n, summed, std::move(*as_it_is), "", ""};
      if (cut.halves.inner.front().statement.reads.size() < 2) continue;
      cut.form = form_of_inner(cut.halves);
      if (cut.halves.inner.front().temporary.dtype == DType::F32)
        cut.wide_form = form_of_inner(halves(true).value());
      cuts.push_back(std::move(cut));
    }
    return cuts;
  }

  std::string form_of_inner(const Halves& halves) {
    program_.tensors.push_back(halves.inner.front().temporary);
    std::string form = form_of(program_, halves.inner.front().statement);
    program_.tensors.resize(known_);
    return form;
  }

  // One in f64 that was made before is read by all, one in f32 by those that need no wider one.
  static bool reads_the_same(const Cut& first, const Cut& other) {
    return first.is_wide() ? first.form == other.widest() : first.form == other.form;
  }

  // Of each by itself, and with one sum for all.
  std::pair<double, double> costs(const std::vector<const Cut*>& equal) {
    double separate = 0, together = 0;
    for (const Cut* cut : equal) {
      separate += choose_factors(program_, std::get<Statement>(program_.nodes[cut->node]), target_).cost;
      for (const HalfSum& part : cut->halves.inner) program_.tensors.push_back(part.temporary);
      together += choose_factors(program_, cut->halves.outer, target_).cost;
      if (cut == equal.front())
        for (const HalfSum& part : cut->halves.inner)
          together += choose_factors(program_, part.statement, target_).cost +
              model::stored_element * elements(program_, part.statement.target.tensor);
      program_.tensors.resize(known_);
    }
    return {separate, together};
  }

  Program& program_;
  const Target& target_;
  std::size_t known_;                                  // tensors
};

}  // namespace

std::vector<CommonSum> choose_common_sum(Program& program, std::size_t n, const Target& target) {
  return Search(program, target).at(n);
}

}  // namespace tilec::codegen
