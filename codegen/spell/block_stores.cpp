#include "codegen/spell/block_stores.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "codegen/finishing.h"
#include "codegen/requests.h"
#include "codegen/scalar.h"
#include "codegen/spell/side_by_side.h"

namespace tilec::codegen {

namespace {

class Stores {
 public:
  Stores(const BlockPlace& at, const Accumulators& sums) : at_(at), l_(at.leaf), sums_(sums) {}

  // Under `add` all that the target holds is read before any of it is written: a vector under a mask covers elements of
  // the next row, whose load would wait for the store.
  Body stores(const std::string& view, bool add) const {
    const bool under_mask = l_.flag && !l_.nest.fill;      // which tells lanes apart where no element is to be told
    if (at_.turns(l_.nest.target.offset) && !under_mask) return turned_stores(view, add);
    Body sums, body;
    const std::string sum = add ? l_.names.fresh("sum") : "";
    const DType held = compute_type(l_.target_type);
    if (add) sums.push_back(stmt(Allocate{sum, held, at_.tile.rows * at_.tile.vectors, Memory::Register}));
    for (std::int64_t i = 0; i < at_.tile.rows; ++i)
      for (std::int64_t v = 0; v < at_.tile.vectors; ++v) {
        const Expr offset = at_.inside_tile(l_.nest.target.offset, i, v);
        const auto in_tile = [&](Stmt s) {
          if (at_.masked(v)) s = stmt(If{at_.mask(v), {std::move(s)}, {}});
          return at_.tile.end ? stmt(If{in_range(i), {std::move(s)}, {}}) : s;
        };
        Expr x = result(add ? sums : body, i, v);
        if (add) {
          const Expr slot(i * at_.tile.vectors + v);
          // parts are added up only where no flag is
          sums.push_back(
              in_tile(stmt(Store{sum, slot, combine(l_.nest.aggregation, Load{view, offset, l_.target_type}, x)})));
          x = Load{sum, slot, held};
        }
        body.push_back(in_tile(stmt(
            Store{view, offset, convert(x, l_.target_type), l_.compute.streams() ? Hint::Streaming : Hint::Plain})));
      }
    append(sums, std::move(body));
    return sums;
  }

  // What is computed of each sum is written in its place.
  Body finished(const Finishing& finishing) const {
    Body body;
    for (std::int64_t i = 0; i < at_.tile.rows; ++i)
      for (std::int64_t v = 0; v < at_.tile.vectors; ++v) {
        Body one;
        const Expr sum = result(one, i, v);
        append(one, finishing.stores(sum, [&](const Form& form) { return at_.index_value(form, i, v); }));
        if (at_.masked(v)) one = {stmt(If{at_.mask(v), std::move(one), {}})};
        if (at_.tile.end) one = {stmt(If{in_range(i), std::move(one), {}})};
        append(body, std::move(one));
      }
    return body;
  }

  // What lies side by side along rows, with one access each; none where nothing does.
  std::optional<Body> wide_stores(const std::string& view) const {
    if (!l_.has_part_of_m() || at_.tile.blocked_n || l_.compute.streams()) return std::nullopt;
    const Form& f = l_.nest.target.offset;
    const Neighbours side = neighbours_in_rows(at_, l_.nest.target);
    if (side.width < 2) return std::nullopt;
    std::map<std::int64_t, std::int64_t> row_at;
    for (std::int64_t i = 0; i < at_.tile.rows; ++i) row_at[at_.of_row(f, i)] = i;
    Body body;
    for (std::int64_t i = 0; i < at_.tile.rows; ++i) {
      const auto values = l_.values_of_row(i, at_.tile.rows);
      const auto of = std::ranges::find(values, *side.along, &std::pair<std::size_t, std::int64_t>::first);
      if (of->second % side.width) continue;
      // What is written is there before any of it is: a compiler does not see that others are one access.
      const std::string name = l_.names.fresh("o"), y = l_.names.fresh("y");
      const Expr offset(at_.of_row(f, i));
      Body together{stmt(View{name, view, offset, side.width * lang::bytes(l_.target_type)})};
      body.push_back(stmt(Allocate{y, l_.target_type, side.width, Memory::Register}));
      for (std::int64_t u = 0; u < side.width; ++u) {
        const Expr sum = result(body, row_at.at(at_.of_row(f, i) + u), 0);
        body.push_back(stmt(Store{y, Expr(u), convert(sum, l_.target_type)}));
        together.push_back(stmt(Store{name, Expr(u), Load{y, Expr(u), l_.target_type}}));
      }
      if (at_.tile.end) together = {stmt(If{in_range(i), std::move(together), {}})};
      append(body, std::move(together));
    }
    return body;
  }

 private:
  // Reads before it writes under `add`, as `stores` does.
  Body turned_stores(const std::string& view, bool add) const {
    Body body;
    const Form& f = l_.nest.target.offset;
    for (std::int64_t v = 0; v < at_.tile.vectors; ++v) {
      const std::string square = l_.names.fresh("square");
      const DType held = compute_type(l_.target_type);
      const bool whole = at_.strip(f);
      const std::int64_t vectors = whole ? at_.tile.rows : l_.compute.lanes;
      body.push_back(stmt(Allocate{square, held, vectors, Memory::Register}));
      for (std::int64_t i = 0; i < at_.tile.rows; ++i) body.push_back(stmt(Store{square, Expr(i), result(body, i, v)}));
      body.push_back(whole ? stmt(Interleave{square}) : stmt(Transpose{square}));
      const auto for_vectors = [&](const auto& store) {
        for (std::int64_t l = 0; l < vectors; ++l) {
          const Stmt s = stmt(store(whole ? at_.along_strip(v, l) : at_.along_m(f, v, l), Expr(l)));
          body.push_back(whole ? at_.of_strip(s, v, l) : at_.of_square(s, v, l));
        }
      };
      if (add)
        for_vectors([&](const Expr& offset, const Expr& l) {
          return Store{
              square, l, combine(l_.nest.aggregation, Load{view, offset, l_.target_type}, Load{square, l, held})};
        });
      for_vectors([&](const Expr& offset, const Expr& l) {
        return Store{view, offset, convert(Load{square, l, held}, l_.target_type),
            l_.compute.streams() ? Hint::Streaming : Hint::Plain};
      });
    }
    return body;
  }

  // Of the last block, whether m has row i's value.
  Expr in_range(std::int64_t i) const {
    return less(at_.tile.m0 + Expr(i % l_.values_of_m(at_.tile.rows)), *at_.tile.end);
  }

  // What row i of vector v holds; under `add` it is added to what the target holds.
  Expr result(Body& body, std::int64_t i, std::int64_t v) const {
    return sums_.or_fill(convert(sums_.folded(body, sums_.slot(i, v)), compute_type(l_.target_type)));
  }

  const BlockPlace& at_;
  const SpelledLeaf& l_;
  const Accumulators& sums_;
};

}  // namespace

Body spell_stores(const BlockPlace& at, const Accumulators& sums, const PartOfSum& part, Body requests) {
  SpelledLeaf& l = at.leaf;
  const Stores stores(at, sums);
  if (l.around.finishing != nullptr) {
    append(requests, stores.finished(*l.around.finishing));
    return requests;
  }
  if (const auto held = l.around.held.find(target_access); held != l.around.held.end()) {
    append(requests, stores.stores(held->second, false));
    return requests;
  }
  const std::string name = l.names.fresh("o");
  Body body{stmt(View{name, l.storage.name(l.nest.target.tensor), at.corner(target_access, l.nest.target.offset)})};
  const bool always = part.later && part.later->as<Constant>();
  if (part.later && !always) {
    append(body, std::move(requests));
    body.push_back(stmt(If{*part.later, stores.stores(name, true), stores.stores(name, false)}));
    return body;
  }
  Body plain = stores.stores(name, always);
  if (auto wide = always ? std::nullopt : stores.wide_stores(name)) {
    const std::int64_t width = neighbours_in_rows(at, l.nest.target).width;
    const Expr may = aligned(l.storage, l.names, body, l.nest.target.tensor, width);
    plain = {stmt(If{may, *std::move(wide), std::move(plain)})};
  }
  append(body, among_stores(std::move(plain), name, std::move(requests)));
  if (always || !l.flag || l.nest.fill) return body;
  return {stmt(If{sums.has_met(), std::move(body), {}})};
}

}  // namespace tilec::codegen
