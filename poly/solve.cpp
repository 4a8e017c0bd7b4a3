// isl, confined. Each question builds one basic set in a fresh context, so nothing crosses threads or calls, and ends
// when the context has done `cap` operations: isl then answers with null objects, which become nullopt here.
//
// A divisor d is a congruence: (c·i + e)/d exact means there is a t with c·i + e = d·t, one more variable that is never
// projected out (projecting is where isl may take seconds; min, max and sample do not need it).
#include "poly/solve.h"

#include <algorithm>

#include <isl/aff.h>
#include <isl/constraint.h>
#include <isl/ctx.h>
#include <isl/ilp.h>
#include <isl/local_space.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

#include <limits>
#include <memory>

#include "poly/exact.h"

namespace tilec::poly::solve {
namespace {

template <auto Free> struct Release { template <class T> void operator()(T* object) const { Free(object); } };
template <class T, auto Free> using Owned = std::unique_ptr<T, Release<Free>>;
using Context = Owned<isl_ctx, isl_ctx_free>;
using Set = Owned<isl_basic_set, isl_basic_set_free>;
using Value = Owned<isl_val, isl_val_free>;

thread_local Usage used;

Context capped_context(unsigned long cap) {
  ++used.asked;
  Context context(isl_ctx_alloc());
  isl_options_set_on_error(context.get(), ISL_ON_ERROR_CONTINUE);
  isl_ctx_set_max_operations(context.get(), cap);
  return context;
}

// coefficients·i (from variable `first`) + constant + extra·variable `at`, >= 0 or == 0, added to the set.
void add(Set& set, const std::vector<std::int64_t>& coefficients, int first, std::int64_t constant, bool equality,
    int at = -1, std::int64_t extra = 0) {
  if (!set) return;
  isl_local_space* space = isl_local_space_from_space(isl_basic_set_get_space(set.get()));
  isl_constraint* c = equality ? isl_constraint_alloc_equality(space) : isl_constraint_alloc_inequality(space);
  for (std::size_t k = 0; k < coefficients.size(); ++k)
    if (coefficients[k] != 0)
      c = isl_constraint_set_coefficient_val(c, isl_dim_set, first + static_cast<int>(k),
          isl_val_int_from_si(isl_basic_set_get_ctx(set.get()), coefficients[k]));
  if (at >= 0)
    c = isl_constraint_set_coefficient_val(
        c, isl_dim_set, at, isl_val_int_from_si(isl_basic_set_get_ctx(set.get()), extra));
  c = isl_constraint_set_constant_val(c, isl_val_int_from_si(isl_basic_set_get_ctx(set.get()), constant));
  set.reset(isl_basic_set_add_constraint(set.release(), c));
}

std::size_t divisors(const std::vector<Row>& rows) {
  std::size_t count = 0;
  for (const Row& row : rows) count += row.divisor != 1;
  return count;
}

// The rows on variables first .. first + n; their quotients take variables from `quotient` on.
void add_rows(Set& set, const std::vector<Row>& rows, int first, int quotient) {
  for (const Row& row : rows) {
    add(set, row.coefficients, first, row.constant, false);
    if (row.extent) {                                  // d·(R - 1) - (c·i + e) >= 0
      std::vector<std::int64_t> negated(row.coefficients);
      for (std::int64_t& c : negated) c = (-Exact(c)).get();
      add(set, negated, first, (Exact(row.divisor) * (Exact(*row.extent) - 1) - row.constant).get(), false);
    }
    if (row.divisor != 1) add(set, row.coefficients, first, row.constant, true, quotient++, -row.divisor);
  }
}

Set universe(isl_ctx* context, std::size_t variables) {
  return Set(isl_basic_set_universe(isl_space_set_alloc(context, 0, static_cast<unsigned>(variables))));
}

bool capped(isl_ctx* context) { return isl_ctx_last_error(context) != isl_error_none; }

std::optional<std::int64_t> integer(isl_val* value) {
  if (isl_val_is_int(value) != isl_bool_true || isl_val_n_abs_num_chunks(value, 8) > 1) return std::nullopt;
  return isl_val_get_num_si(value);
}

// The least or greatest value of a variable; `known` tells failure from infinity.
std::optional<std::int64_t> extreme(const Set& set, int variable, bool greatest, bool& known, bool& empty) {
  isl_aff* form = isl_aff_var_on_domain(
      isl_local_space_from_space(isl_basic_set_get_space(set.get())), isl_dim_set, static_cast<unsigned>(variable));
  isl_set* whole = isl_set_from_basic_set(isl_basic_set_copy(set.get()));
  const Value value(greatest ? isl_set_max_val(whole, form) : isl_set_min_val(whole, form));
  isl_set_free(whole);
  isl_aff_free(form);
  known = value != nullptr;
  if (!known) return std::nullopt;
  if (isl_val_is_nan(value.get()) == isl_bool_true) empty = true;
  return integer(value.get());
}

std::optional<std::vector<std::int64_t>> coordinates(isl_point* point, std::size_t count) {
  std::vector<std::int64_t> result;
  for (std::size_t k = 0; k < count; ++k) {
    const Value value(isl_point_get_coordinate_val(point, isl_dim_set, static_cast<int>(k)));
    const std::optional<std::int64_t> number = value ? integer(value.get()) : std::nullopt;
    if (!number) return std::nullopt;
    result.push_back(*number);
  }
  return result;
}

// What `ask` answers; rows whose other side does not fit 64 bits are not asked about.
template <class Ask> auto noted(Ask ask) -> decltype(ask()) {
  try {
    auto answer = ask();
    used.capped += !answer;
    return answer;
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

std::optional<Hull> hull_within(const std::vector<Row>& rows, std::size_t indices, unsigned long cap) {
  const Context context = capped_context(cap);
  Set set = universe(context.get(), indices + divisors(rows));
  add_rows(set, rows, 0, static_cast<int>(indices));
  Hull result;
  if (!set || capped(context.get())) return std::nullopt;
  for (std::size_t k = 0; k < indices; ++k) {
    Interval interval;
    for (const bool greatest : {false, true}) {
      bool known = false;
      const std::optional<std::int64_t> value = extreme(set, static_cast<int>(k), greatest, known, result.empty);
      if (!known || capped(context.get())) return std::nullopt;
      if (result.empty) return result;
      (greatest ? interval.upper : interval.lower) = value;
    }
    result.index.push_back(interval);
  }
  return result;
}

std::optional<bool> is_empty_within(const std::vector<Row>& rows, std::size_t indices, unsigned long cap) {
  const Context context = capped_context(cap);
  Set set = universe(context.get(), indices + divisors(rows));
  add_rows(set, rows, 0, static_cast<int>(indices));
  if (!set) return std::nullopt;
  const isl_bool answer = isl_basic_set_is_empty(set.get());
  if (answer == isl_bool_error || capped(context.get())) return std::nullopt;
  return answer == isl_bool_true;
}

// Points i and j with equal forms that differ first in variable k, j above i: at most one question per variable, since
// the pair may be swapped.
std::optional<std::optional<Collision>> collision_within(const std::vector<Row>& rows,
    const std::vector<std::vector<std::int64_t>>& forms, std::size_t indices, unsigned long cap) {
  // isl's cap counts operations, not the length of their numbers: many indices with wide coefficients take it seconds
  // all the same.
  const auto wide = [](const std::vector<std::int64_t>& form) {
    return std::any_of(form.begin(), form.end(), [](std::int64_t c) { return c > 1 << 20 || c < -(1 << 20); });
  };
  if (indices > 6 && std::any_of(forms.begin(), forms.end(), wide)) return std::nullopt;
  const Context context = capped_context(cap);
  const std::size_t quotients = divisors(rows);
  const int n = static_cast<int>(indices);
  Set both = universe(context.get(), 2 * (indices + quotients));
  add_rows(both, rows, 0, 2 * n);
  add_rows(both, rows, n, 2 * n + static_cast<int>(quotients));
  for (const std::vector<std::int64_t>& form : forms) {
    std::vector<std::int64_t> difference(form);
    for (const std::int64_t c : form) difference.push_back((-Exact(c)).get());
    add(both, difference, 0, 0, true);
  }
  for (int k = 0; k < n; ++k) {
    if (!both || capped(context.get())) return std::nullopt;
    std::vector<std::int64_t> difference(2 * indices, 0);
    difference[static_cast<std::size_t>(n) + static_cast<std::size_t>(k)] = 1;
    difference[static_cast<std::size_t>(k)] = -1;
    Set apart(isl_basic_set_copy(both.get()));
    add(apart, difference, 0, -1, false);              // j_k - i_k >= 1
    if (!apart) return std::nullopt;
    isl_point* point = isl_basic_set_sample_point(apart.release());
    if (point == nullptr || capped(context.get())) {
      isl_point_free(point);
      return std::nullopt;
    }
    if (isl_point_is_void(point) != isl_bool_true) {
      const std::optional<std::vector<std::int64_t>> pair = coordinates(point, 2 * indices);
      isl_point_free(point);
      if (!pair) return std::nullopt;
      return Collision{{pair->begin(), pair->begin() + n}, {pair->begin() + n, pair->end()}};
    }
    isl_point_free(point);
    add(both, difference, 0, 0, true);                 // equal here, so they differ later
  }
  return std::optional<Collision>();
}

}  // namespace

Usage usage() { return used; }
void reset_usage() { used = {}; }

std::optional<Hull> hull(const std::vector<Row>& rows, std::size_t indices, unsigned long cap) {
  return noted([&] { return hull_within(rows, indices, cap); });
}
std::optional<bool> is_empty(const std::vector<Row>& rows, std::size_t indices, unsigned long cap) {
  return noted([&] { return is_empty_within(rows, indices, cap); });
}
std::optional<std::optional<Collision>> collision(const std::vector<Row>& rows,
    const std::vector<std::vector<std::int64_t>>& forms, std::size_t indices, unsigned long cap) {
  return noted([&] { return collision_within(rows, forms, indices, cap); });
}

}  // namespace tilec::poly::solve
