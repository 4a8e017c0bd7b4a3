#include "codegen/spell/scan_tile.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "codegen/scalar.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

void count_down(Nest& nest, std::size_t d) {
  const auto turn = [&](Form& form) {
    form.constant += form.coefficients[d] * (nest.dims[d].extent - 1);
    form.coefficients[d] = -form.coefficients[d];
  };
  turn(nest.target.offset);
  for (FlatAccess& read : nest.reads) turn(read.offset);
  for (Row& row : nest.rows) turn(row.form);
  for (auto& form : nest.forms) turn(form.second);
}

Scan known_scan(const Nest& nest) {
  const auto scan = scan_of(nest);
  if (!scan) throw lang::InternalError("the plan scans a statement that is no scan");
  return *scan;
}

std::int64_t alignment_of(const Alignments& bytes, std::size_t access) {
  const auto found = bytes.find(access);
  return found == bytes.end() ? 0 : found->second;
}

}  // namespace

ScanTile::ScanTile(
    const Nest& of, const Compute& as, const Storage& held, const Surroundings& surroundings, Names& fresh)
    : nest(of),
      leaf(as),
      scan(known_scan(of)),
      storage(held),
      around(surroundings),
      names(fresh),
      points(nest),
      fold_type(compute_type(of.value->type())),
      target_type(held.plan.program.tensor(of.target.tensor).dtype),
      along(scan.along),
      over(scan.over),
      scaled(has_scale(of.aggregation, fold_type)) {
  if (scan.along_down) count_down(nest, along);
  if (scan.over_down) count_down(nest, over);
  for (const auto& [d, value] : around.fixed) points.fix(d, value);
  for (const auto& [d, interval] : around.limits) points.limit(d, interval);
  if (!leaf.n.empty()) n = nest.dim(leaf.n);
  views.resize(nest.reads.size());
}

Expr ScanTile::stored_value(const Expr& x) const { return convert(x, compute_type(target_type)); }

Expr ScanTile::named(Body& body, const std::string& stem, const Expr& value) {
  return value.as<Variable>() ? value : codegen::named(names, body, stem, value);
}

ScanParts ScanTile::parts(Body& body) {
  ScanParts p{points.bounds(over), points.bounds(along)};
  for (Expr* e : {&p.k.lo, &p.k.hi, &p.j.lo}) *e = named(body, "at", *e);
  p.j.hi = named(body, "at", maximum(p.j.lo, p.j.hi));
  p.first = named(body, "first", clamped(ceil_divide(p.k.lo * i64(scan.q) - i64(scan.c), scan.p), p.j));
  p.full =
      named(body, "full", clamped(ceil_divide(p.k.hi * i64(scan.q) - i64(scan.c), scan.p), {p.first, p.j.hi}));
  return p;
}

Expr ScanTile::end_at(const Expr& j, const ScanParts& p) const {
  return clamped(floor_divide(j * i64(scan.p) + i64(scan.c), scan.q) + i64(1), p.k);
}

Body ScanTile::registers(Body inside) {
  Body body{stmt(Allocate{acc, fold_type, vectors, Memory::Register})};
  if (scaled) {
    body.push_back(stmt(Allocate{product.exponent, DType::I32, vectors, Memory::Register}));
    for (std::int64_t v = 0; v < vectors; ++v) begin_product(body, product, v, fold_type);
  } else {
    for (std::int64_t v = 0; v < vectors; ++v)
      body.push_back(stmt(Store{acc, i64(v), identity(nest.aggregation, fold_type)}));
  }
  append(body, std::move(inside));
  return body;
}

Body ScanTile::fill(const Interval& range) {
  if (!nest.fill) return {};                           // the buffer holds it
  return each_element(range, [&](Body&, std::int64_t) { return constant_of(*nest.fill); });
}

Body ScanTile::each_element(const Interval& range, const std::function<Expr(Body&, std::int64_t)>& value) {
  Body body;
  const Expr turns = named(body, "turns", range.hi - range.lo);
  if (is_const(turns) && const_or(turns, 0) <= 0) return {};
  points.fix(along, range.lo);
  view_of_target(body);
  points.release(along);
  append(body, loop(nest.dims[along].name, turns, advance(1, false, true), [&](const Expr&) {
    Body turn;
    for (std::int64_t v = 0; v < vectors; ++v) put(turn, v, 0, value(turn, v));
    return turn;
  }));
  return body;
}

Body ScanTile::masked_turn(std::int64_t v, const std::function<void(Body&, std::int64_t)>& each) {
  Body turn;
  values.clear();
  const std::optional<Expr> all = mask;
  if (masked(v)) mask.reset();                         // the whole turn stands inside the mask
  const bool is_masked = all && !mask;
  each(turn, v);
  mask = all;
  if (!is_masked) return turn;
  return {stmt(If{*mask, std::move(turn), {}})};
}

Expr ScanTile::folded(Body& body, std::int64_t v) {
  return scaled ? product_of(body, names, product, v, fold_type) : accumulator(v);
}

Expr ScanTile::corner(std::size_t access, const Form& offset) const {
  Expr sum = points.known_part(offset);
  if (n) sum = sum + n0 * i64(offset.coefficients[*n]);
  const auto base = around.base.find(access);
  return base == around.base.end() ? sum : sum - base->second;
}

void ScanTile::view_of_target(Body& body, const Alignments& bytes) {
  target_view = names.fresh("o");
  body.push_back(stmt(View{target_view, storage.name(nest.target.tensor), corner(target_access, nest.target.offset),
      alignment_of(bytes, target_access)}));
}

void ScanTile::views_of_reads(Body& body, const Alignments& bytes) {
  for (std::size_t r = 0; r < nest.reads.size(); ++r) {
    views[r] = names.fresh(fmt::format("p{}", r));
    body.push_back(stmt(View{
        views[r], storage.name(nest.reads[r].tensor), corner(r, nest.reads[r].offset), alignment_of(bytes, r)}));
  }
}

std::vector<Advance> ScanTile::advance(std::int64_t steps, bool reads, bool target) const {
  std::vector<Advance> moves;
  const auto add = [&](const std::string& view, std::int64_t stride) {
    if (stride) moves.push_back({view, i64(stride * steps)});
  };
  for (std::size_t r = 0; reads && r < nest.reads.size(); ++r)
    add(views[r], nest.reads[r].offset.coefficients[over]);
  if (target) add(target_view, nest.target.offset.coefficients[along]);
  return moves;
}

Body ScanTile::loop(const std::string& stem, const Expr& turns, const std::vector<Advance>& moves,
    const std::function<Body(const Expr&)>& inside) {
  if (is_const(turns) && const_or(turns, 0) <= 0) return {};
  if (is_const(turns) && const_or(turns, 0) == 1) return inside(i64(0));
  const std::string index = names.fresh(stem);
  Stmt loop = stmt(For{index, Kind::Serial, turns, moves, inside(var(index))});
  if (is_const(turns)) return {std::move(loop)};
  return {stmt(If{less(i64(0), turns), {std::move(loop)}, {}})};
}

void ScanTile::put(Body& body, std::int64_t v, std::int64_t place, const Expr& value) {
  const Form& f = nest.target.offset;
  Stmt store = stmt(Store{target_view, i64(place * f.coefficients[along]) + aside(f, v), convert(value, target_type)});
  if (masked(v)) body.push_back(stmt(If{*mask, {std::move(store)}, {}}));
  else body.push_back(std::move(store));
}

Expr ScanTile::value(Body& body, const poly::Expr& e, std::int64_t v, std::int64_t u) {
  if (const auto* number = e.as<poly::Number>()) return constant_of(*number);
  if (started && starts(e)) return value(body, e.as<poly::Apply>()->operands[2], v, u);
  const void* node = e.match([](const auto& x) { return static_cast<const void*>(&x); });
  if (const auto found = values.find(node); found != values.end()) return found->second;
  const Expr result = named(body, "t", e.match(
      [](const poly::Number& x) { return constant_of(x); }, [&](const poly::Read& r) { return load(r, v, u); },
      [&](const poly::Index& x) { return convert(index_value(nest.form(x.value), v, u), compute_type(x.type)); },
      [&](const poly::Cast& c) { return cast(value(body, c.operand, v, u), c.operand, c.type); },
      [&](const poly::Apply& a) {
        std::vector<Expr> operands;
        for (const poly::Expr& o : a.operands) operands.push_back(value(body, o, v, u));
        return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
      }));
  values.emplace(node, result);
  return result;
}

Expr ScanTile::load(const poly::Read& r, std::int64_t v, std::int64_t u) const {
  if (const auto in = held.find(static_cast<std::size_t>(r.read)); in != held.end())
    return convert(in->second, compute_type(r.type));
  const FlatAccess& access = nest.reads[static_cast<std::size_t>(r.read)];
  const DType type = storage.plan.program.tensor(access.tensor).dtype;
  const Expr offset = i64(u * access.offset.coefficients[over]) + aside(access.offset, v);
  return convert(Expr(Load{views[static_cast<std::size_t>(r.read)], offset, type}), compute_type(r.type));
}

Expr ScanTile::index_value(const Form& f, std::int64_t v, std::int64_t u) const {
  Expr sum = points.known_part(f) + i64(u * f.coefficients[over]);
  return n ? sum + n0 * i64(f.coefficients[*n]) + aside(f, v) : sum;
}

std::optional<std::int64_t> ScanTile::start_of(const poly::Expr& condition) const {
  const auto* apply = condition.as<poly::Apply>();
  if (!apply || apply->op != Op::Eq) return std::nullopt;
  const auto* index = apply->operands[0].as<poly::Index>();
  const auto* number = apply->operands[1].as<poly::Number>();
  if (!index || !number || lang::is_float(number->type)) return std::nullopt;
  const Form& f = nest.form(index->value);
  for (std::size_t d = 0; d < f.coefficients.size(); ++d)
    if ((f.coefficients[d] != 0) != (d == over)) return std::nullopt;
  const std::int64_t a = f.coefficients[over], rest = number->integer - f.constant;
  return rest % a ? -1 : rest / a;
}

bool ScanTile::starts(const poly::Expr& e) const {
  const auto* apply = e.as<poly::Apply>();
  if (!apply || apply->op != Op::Select) return false;
  const auto start = start_of(apply->operands[0]);
  return start && *start <= 0;
}

bool ScanTile::knows_start(const poly::Expr& e) const {
  return starts(e) ||
      e.match(
          [&](const poly::Apply& a) {
            return std::any_of(
                a.operands.begin(), a.operands.end(), [&](const poly::Expr& o) { return knows_start(o); });
          },
          [&](const poly::Cast& c) { return knows_start(c.operand); }, [](const auto&) { return false; });
}

Expr ScanTile::aside(const Form& offset, std::int64_t v) const {
  return n && offset.coefficients[*n] ? (i64(v * leaf.lanes) + lane()) * i64(offset.coefficients[*n]) : i64(0);
}

}  // namespace tilec::codegen
