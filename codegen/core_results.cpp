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
  std::optional<Expr> two;
  for (const FlatAccess* target : finishing_.targets()) {
    if (!is_pair(*target)) continue;
    const Expr own = aligned(body, target->tensor, 2);
    two = two ? both(*two, own) : own;
  }
  if (two) body.push_back(stmt(If{let(body, "pairs", *two), rows(all, 2), rows(all, 1)}));
  else append(body, rows(all, 0));
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

bool CoreResults::is_pair(const FlatAccess& target) const {
  return extent(roles_.n.back()) % 2 == 0 && neighbours_of(target, roles_.n.back(), 2) == 2;
}

Body CoreResults::rows(std::vector<Spot>& spots, std::int64_t together) {
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

Body CoreResults::columns(
    const std::vector<Spot>& spots, std::int64_t i, std::int64_t half, std::int64_t j, std::int64_t together) {
  const bool even = extent(roles_.n.back()) % 2 == 0;  // both are inside, or none
  Body body;
  for (std::int64_t one = 0; one < 2; one += even ? 2 : 1) {
    std::vector<Expr> sums{element_of(i, half, j, one)};
    if (even) sums.push_back(element_of(i, half, j, 1));
    Body some = stores(spots, sums, 2 * j + one, together);
    const Expr n = n_of_thread_ + i64(j * instruction_.n + one);
    if (extent(roles_.n) % width_) some = {stmt(If{less(n, i64(extent(roles_.n))), std::move(some), {}})};
    append(body, std::move(some));
  }
  return body;
}

Body CoreResults::stores(
    const std::vector<Spot>& spots, const std::vector<Expr>& sums, std::int64_t column, std::int64_t together) {
  Body body;
  const auto place = [&](const Form& form, std::size_t x) {
    const Spot& spot = *std::ranges::find(spots, &form, &Spot::form);
    return spot.base + spot.columns[static_cast<std::size_t>(column) + x];
  };
  for (const auto& [target, values] : finishing_.values(body, sums, place)) {
    const bool pair = together && is_pair(*target);
    const std::size_t w = pair && together == 2 ? 2 : 1;
    for (std::size_t x = 0; x < values.size(); x += w) {
      std::string view = storage_.name(target->tensor);
      Expr at = place(target->offset, x);
      if (pair) {
        const std::string first = names_.fresh("v");
        body.push_back(stmt(View{first, view, at, w == 2 ? bytes_of(target->tensor, 2) : 1}));
        view = first, at = i64(0);
      }
      for (std::size_t c = 0; c < w; ++c)
        body.push_back(stmt(Store{view, at + i64(static_cast<std::int64_t>(c)), values[x + c]}));
    }
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
