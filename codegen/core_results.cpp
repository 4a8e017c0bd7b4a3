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
  n_of_thread_ = let(body, "n_of_thread", n0_ + first_n_ + remainder(lane_, 4) * i64(2));
  std::vector<Spot> all = spots(body);
  std::vector<Finishing::Together> together = finishing_.side_by_side(body, roles_.n.back(), 2);
  std::optional<Expr> pairs;
  for (const auto& one : together) if (one.aligned) pairs = pairs ? both(*pairs, *one.aligned) : *one.aligned;
  const auto known = [&](bool aligned) {
    for (auto& one : together) if (one.aligned) one.aligned = Constant{DType::Bool, aligned};
    return rows(all, together);
  };
  if (pairs) body.push_back(stmt(If{let(body, "pairs", *pairs), known(true), known(false)}));
  else append(body, rows(all, together));
  return body;
}

std::vector<CoreResults::Spot> CoreResults::spots(Body& body) {
  std::vector<Spot> all;
  for (const Form* form : finishing_.forms()) all.push_back({form, {}, i64(0)});
  for (std::int64_t j = 0; j < leaf_.vectors; ++j)
    for (std::int64_t one = 0; one < 2; ++one) {
      const Expr n = n_of_thread_ + i64(j * instruction_.n + one);
      const std::vector<Expr> at = roles_.n.size() == 1 ? std::vector{n} : digits(body, roles_.n, n);
      for (Spot& spot : all) {
        const Expr offset = part(*spot.form, roles_.n, at);
        spot.columns.push_back(roles_.n.size() == 1 ? offset : let(body, "of_n", offset));
      }
    }
  return all;
}

Body CoreResults::rows(std::vector<Spot>& spots, const std::vector<Finishing::Together>& together) {
  Body body;
  for (std::int64_t i = 0; i < leaf_.rows; ++i)
    for (std::int64_t half = 0; half < 2; ++half) {
      const Expr m = m_of_thread_ + i64(row(i, half));
      Body line;
      const std::vector<Expr> at = digits(line, roles_.m, m);
      for (Spot& spot : spots) spot.base = points_.known_part(*spot.form) + part(*spot.form, roles_.m, at);
      for (std::int64_t j = 0; j < leaf_.vectors; ++j) append(line, columns(spots, i, half, j, together));
      if (extent(roles_.m) % height_) body.push_back(stmt(If{less(m, i64(extent(roles_.m))), std::move(line), {}}));
      else append(body, std::move(line));
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
      const Spot& spot = *std::ranges::find(spots, &form, &Spot::form);
      return spot.base + spot.columns[static_cast<std::size_t>(2 * j + one) + x];
    };
    Body some = finishing_.stores(sums, place, together);
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
  return unless_finite(acc_, leaf_.rows * leaf_.vectors * instruction_.registers_of_c(), std::move(elements));
}

}  // namespace tilec::codegen
