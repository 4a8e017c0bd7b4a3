#include "lang/repair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lang/repair/draft.h"
#include "lang/repair/rewrites.h"

namespace tilec::lang {
namespace {

// In the order in which they are tried: what joins tokens comes before what takes operands apart, and a statement's
// target and aggregation come last.
constexpr bool (*rewrites[])(repair::Draft&) = {repair::commas, repair::tuples, repair::casts, repair::calls_of_tensors,
    repair::additions, repair::returns, repair::keywords, repair::marks, repair::numbers, repair::powers,
    repair::negations, repair::choices, repair::conditions, repair::prefixes, repair::einsums,
    repair::sums_over_an_index, repair::pairs, repair::members, repair::movements, repair::reshapes,
    repair::whole_reductions, repair::products, repair::brackets, repair::slices, repair::wraps, repair::remainders,
    repair::reduction_inside, repair::gathers, repair::comparison_of_constraint, repair::constraint_of_elements,
    repair::running, repair::positions, repair::target};

std::optional<Repaired> rewritten(repair::Draft draft) {
  if (!draft.balanced()) return std::nullopt;          // rewrites rely on it, and keep it so
  bool changed = false;
  for (int steps = 0; steps < 60 && draft.text.size() < 4000; ++steps) {
    if (std::none_of(std::begin(rewrites), std::end(rewrites), [&](auto rewrite) { return rewrite(draft); })) break;
    changed = true;
  }
  if (!changed) return std::nullopt;
  draft.before.push_back(draft.text + ";");
  return Repaired{fmt::format("{}", fmt::join(draft.before, " ")), draft.note};
}

}  // namespace

std::optional<Repaired> repaired(std::string_view text, const StatementText& statement) {
  if (statement.end - statement.begin > 1000) return std::nullopt;
  std::string own;                                     // on one line
  for (const Token& token : tokens_of(text, statement.begin, statement.end - 1)) {
    if (token.text.starts_with("//")) return std::nullopt;
    own.append(own.empty() || token.touches ? "" : " ").append(token.text);
  }
  std::size_t end = text.find('}', statement.end);
  end = std::min(end, text.size());
  return rewritten(repair::Draft(own, text.substr(statement.function, statement.begin - statement.function),
      text.substr(statement.function, end - statement.function)));
}

}  // namespace tilec::lang
