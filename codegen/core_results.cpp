#include "codegen/core_results.h"

#include <algorithm>
#include <functional>

#include "codegen/scalar.h"

namespace tilec::codegen {

Expr CoreResults::element_of(std::int64_t i, std::int64_t half, std::int64_t j, std::int64_t one) const {
  return Load{acc_, i64((i * leaf_.vectors + j) * instruction_.registers_of_c() + half * 2 + one), type_};
}

Body CoreResults::write() {
  Body body;
  m_of_thread_ = let(body, "m_of_thread", m0_ + first_m_ + warp_ * i64(16) + quotient(lane_, 4));
  const Expr n = let(body, "n_of_warp", n0_ + first_n_);
  n_of_thread_ = let(body, "n_of_thread", n + remainder(lane_, 4) * i64(2));
  std::vector<Expr> columns;
  for (std::int64_t j = 0; j < leaf_.vectors; ++j)
    for (std::int64_t one = 0; one < 2; ++one) columns.push_back(n_of_thread_ + i64(j * instruction_.n + one));
  std::vector<Spot> all = spots(body, columns);
  append(body, finishing_.in_pairs(roles_.n.back(), [&](const std::vector<Finishing::Together>& together) {
    Body some;
    std::vector<Spot> exchanged;
    pairs_.clear();
    if (Finishing::exchanges(together)) {
      exchanges_ = true;
      const Expr t = remainder(lane_, 4);
      const Expr first =
          let(some, "n_of_four", n + remainder(t, 2) * i64(instruction_.n) + quotient(t, 2) * i64(4));
      for (std::int64_t j = 0; j < leaf_.vectors; j += 2) pairs_.push_back(first + i64(j * instruction_.n));
      exchanged = spots(some, pairs_);
    }
    append(some, rows(all, exchanged, together));
    return some;
  }));
  return body;
}

std::vector<CoreResults::Spot> CoreResults::spots(Body& body, const std::vector<Expr>& columns) {
  std::vector<Spot> all;
  for (const Form* form : finishing_.forms()) all.push_back({form, {}, i64(0)});
  for (const Expr& n : columns) {
    const std::vector<Expr> at = roles_.n.size() == 1 ? std::vector{n} : digits(body, roles_.n, n);
    for (Spot& spot : all) {
      const Expr offset = part(*spot.form, roles_.n, at);
      spot.columns.push_back(roles_.n.size() == 1 ? offset : let(body, "of_n", offset));
    }
  }
  return all;
}

const CoreResults::Spot& CoreResults::spot_of(const std::vector<Spot>& spots, const Form& form) {
  return *std::ranges::find(spots, &form, &Spot::form);
}

// What is exchanged is so among all threads, also those whose row is none.
Body CoreResults::rows(std::vector<Spot>& spots, std::vector<Spot>& exchanged,
    const std::vector<Finishing::Together>& together) {
  Body body;
  for (std::int64_t i = 0; i < leaf_.rows; ++i)
    for (std::int64_t half = 0; half < 2; ++half) {
      const Expr m = m_of_thread_ + i64(row(i, half));
      const Expr there = extent(roles_.m) % height_ ? less(m, i64(extent(roles_.m))) : Constant{DType::Bool, 1};
      Body line, later;
      const std::vector<Expr> at = digits(exchanged.empty() ? line : body, roles_.m, m);
      for (auto* all : {&spots, &exchanged})
        for (Spot& spot : *all) spot.base = points_.known_part(*spot.form) + part(*spot.form, roles_.m, at);
      const std::vector<Finishing::Together> mine = finishing_.with_registers(body, together, leaf_.vectors);
      for (std::int64_t j = 0; j < leaf_.vectors; ++j) append(line, columns(spots, i, half, j, mine));
      append(body, where(there, std::move(line)));
      for (std::size_t x = 0; x < pairs_.size(); ++x) {
        const auto at_word = static_cast<std::int64_t>(2 * x);
        append(body, finishing_.exchange(mine, at_word));
        Body four = finishing_.exchanged(mine, at_word, [&](const Form& form) {
          const Spot& spot = spot_of(exchanged, form);
          return spot.base + spot.columns[x];
        });
        const bool whole = extent(roles_.n) % width_ == 0;
        append(later, whole ? std::move(four) : where(less(pairs_[x], i64(extent(roles_.n))), std::move(four)));
      }
      append(body, where(there, std::move(later)));
    }
  return body;
}

Body CoreResults::columns(const std::vector<Spot>& spots, std::int64_t i, std::int64_t half, std::int64_t j,
    const std::vector<Finishing::Together>& together) {
  const bool even = extent(roles_.n.back()) % 2 == 0;  // both are inside, or none
  Body body;
  for (std::int64_t one = 0; one < 2; one += even ? 2 : 1) {
    std::vector<Expr> sums{element_of(i, half, j, one)};
    if (even) sums.push_back(element_of(i, half, j, 1));
    const auto place = [&](const Form& form, std::size_t x) {
      const Spot& spot = spot_of(spots, form);
      return spot.base + spot.columns[static_cast<std::size_t>(2 * j + one) + x];
    };
    Body some = finishing_.stores(sums, place, together, {}, j);
    const Expr n = n_of_thread_ + i64(j * instruction_.n + one);
    if (extent(roles_.n) % width_) some = {stmt(If{less(n, i64(extent(roles_.n))), std::move(some), {}})};
    append(body, std::move(some));
  }
  return body;
}

Body CoreResults::again() {
  const auto each = [&](const std::string& stem, std::int64_t count, const std::function<Body(const Expr&)>& inside) {
    return serial(names_, stem, {i64(0), i64(count)}, inside);
  };
  Body elements = each("i", 2 * leaf_.rows, [&](const Expr& i) {
    return each("j", 2 * leaf_.vectors, [&](const Expr& j) {
      return element(m_of_thread_ + quotient(i, 2) * i64(instruction_.m) + remainder(i, 2) * i64(8),
          n_of_thread_ + quotient(j, 2) * i64(instruction_.n) + remainder(j, 2));
    });
  });
  Body all;
  if (exchanges_) all.push_back(stmt(Barrier{}));      // a neighbour has stored what this thread stores again
  append(all,
      unless_finite(acc_, leaf_.rows * leaf_.vectors * instruction_.registers_of_c(), std::move(elements)));
  return all;
}

}  // namespace tilec::codegen
