#include "codegen/staged_copies.h"

#include <algorithm>

#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

// Whether a value is a multiple of w, as far as its spelling says so.
bool is_multiple(const Expr& e, std::int64_t w) {
  if (w == 1) return true;
  if (is_const(e)) return const_or(e, 0) % w == 0;
  const Operation* o = e.as<Operation>();
  if (!o) return false;
  if (o->op == Op::Mul) return is_multiple(o->operands[0], w) || is_multiple(o->operands[1], w);
  const bool keeps = o->op == Op::Add || o->op == Op::Sub || o->op == Op::Min || o->op == Op::Max;
  return keeps && is_multiple(o->operands[0], w) && is_multiple(o->operands[1], w);
}

}  // namespace

bool each_read(const poly::Expr& e, const std::function<void(int)>& f) {
  return e.match([](const poly::Number&) { return true; }, [](const poly::Index&) { return false; },
      [&](const poly::Read& r) {
        f(r.read);
        return true;
      },
      [&](const poly::Cast& c) { return each_read(c.operand, f); },
      [&](const poly::Apply& a) {
        return std::all_of(a.operands.begin(), a.operands.end(), [&](const poly::Expr& o) { return each_read(o, f); });
      });
}

std::int64_t StagedCopies::access_width(const FlatAccess& access, std::size_t d, std::int64_t most) const {
  return is_asked_along(d) ? 1 : neighbours_of(storage_, access, d, most);
}

StagedCopies::Copy StagedCopies::described(const poly::Expr& factor, const std::vector<std::size_t>& dims, bool masked,
    std::int64_t side, const std::string& stem) {
  Copy copy{factor, dims, masked, side};
  copy.type = roles_.joined ? compute_type(factor.type()) : type_;
  const auto& reads = nest_.reads;
  const auto runs = [&](std::size_t d) {
    bool found = false;
    each_read(copy.factor,
        [&](int r) { found = found || std::abs(reads[static_cast<std::size_t>(r)].offset.coefficients[d]) == 1; });
    return found;
  };
  copy.along_depth = runs(roles_.depth) && !runs(copy.dims.back());
  std::int64_t w = neighbours;
  while (copy.along_depth ? !is_multiple(range_.lo, w) || !is_multiple(range_.hi, w) || depth_ % w ||
                 (across() && extent(roles_.depth) % w)
                          : extent(along(copy)) % w || side % w)
    w /= 2;
  bool moves = false;                                  // a value of k, or of another index of the side, is one for all
  each_read(copy.factor, [&](int r) {
    const FlatAccess& access = reads[static_cast<std::size_t>(r)];
    if (access.offset.coefficients[along(copy)]) w = access_width(access, along(copy), w), moves = true;
  });
  copy.width = moves ? w : 1;
  const std::int64_t padding = most_access_bytes / std::min<std::int64_t>(most_access_bytes, lang::bytes(copy.type));
  copy.pitch = side + (copy.along_depth ? padding : 0);
  copy.shared = names_.fresh(stem);
  return copy;
}

Body StagedCopies::prepare(Copy& copy, const Expr& first) {
  Body body;
  const std::int64_t inner = (copy.along_depth ? depth_ : copy.side) / copy.width,
                     total = depth_ * copy.side / copy.width;
  const std::int64_t turns = ceil_divide(total, threads_);
  copy.partial = total % threads_ != 0;
  for (std::int64_t u = 0; u < turns; ++u) {
    const bool steady = threads_ % inner == 0;
    const Expr e = steady ? var(thread_) : let(body, "e", var(thread_) + i64(u * threads_));
    const Expr within = let(body, "w", remainder(e, inner) * i64(copy.width));
    const Expr across = let(body, "a", quotient(e, inner) + i64(steady ? u * (threads_ / inner) : 0));
    const Expr &k = copy.along_depth ? within : across, &x = copy.along_depth ? across : within;
    Piece piece{k, let(body, "to", k * i64(copy.pitch) + x), std::nullopt, {}};
    const Expr value = let(body, "x", first + x);
    if (extent(copy.dims) % copy.side) piece.there = less(value, i64(extent(copy.dims)));
    if (copy.partial && u + 1 == turns) {
      const Expr mine = less(var(thread_) + i64(u * threads_), i64(total));
      piece.there = piece.there ? both(mine, *piece.there) : mine;
    }
    if (piece.there) piece.there = let(body, "in", *piece.there);
    piece.at = digits(body, copy.dims, value);
    copy.pieces.push_back(std::move(piece));
  }
  copy.held = names_.fresh("held");
  body.push_back(stmt(Allocate{copy.held, copy.type, turns * copy.width, Memory::Register}));
  if (copy.width > 1) append(body, look_at_addresses(copy));
  return body;
}

Body StagedCopies::look_at_addresses(Copy& copy) {
  Body body;
  std::optional<Expr> all;
  each_read(copy.factor, [&](int r) {
    const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
    if (!access.offset.coefficients[along(copy)]) return;
    const Expr one = aligned(storage_, names_, body, access.tensor, copy.width);
    all = all ? both(*all, one) : one;
  });
  const std::string name = names_.fresh("aligned");
  body.push_back(stmt(Let{name, *all}));
  copy.aligned = name;
  return body;
}

Body StagedCopies::load(const Copy& copy, const Expr& k0, const std::optional<Expr>& more) {
  Body body;
  std::map<int, Expr> from;                            // read → the part of its offset that all threads share
  each_read(copy.factor, [&](int r) {
    const Form& form = nest_.reads[static_cast<std::size_t>(r)].offset;
    const Expr stage = in_steps(form) ? k0 * i64(form.coefficients[roles_.depth]) : i64(0);
    from.emplace(r, let(body, "from", points_.known_part(form) + stage));
  });
  bool apart = rows_apart(copy.masked);
  each_read(copy.factor,
      [&](int r) { apart = apart || !in_steps(nest_.reads[static_cast<std::size_t>(r)].offset); });
  std::optional<Step> steady;                          // where all pieces of a thread have the same values
  for (std::size_t u = 0; u < copy.pieces.size(); ++u) {
    const Piece& piece = copy.pieces[u];
    const std::int64_t slot = static_cast<std::int64_t>(u) * copy.width;
    const Step k = steady ? *steady : step(body, k0 + piece.k, apart);
    if (copy.along_depth && threads_ % (depth_ / copy.width) == 0) steady = k;
    for (std::int64_t c = 0; c < copy.width; ++c)
      body.push_back(stmt(Store{copy.held, i64(slot + c), Constant{copy.type, 0, 0.0}}));
    Body read = accesses(copy, piece, k, slot, from, false);
    if (!copy.aligned.empty())
      read = {
          stmt(If{Variable{copy.aligned, DType::Bool}, accesses(copy, piece, k, slot, from, true), std::move(read)})};
    std::optional<Expr> all = more;
    if (piece.there) all = all ? both(*all, *piece.there) : *piece.there;
    if (const auto there = takes_part(std::move(all), copy.masked, k, piece.at))
      body.push_back(stmt(If{*there, std::move(read), {}}));
    else append(body, std::move(read));
  }
  return body;
}

Body StagedCopies::accesses(
    const Copy& copy, const Piece& piece, const Step& k, std::int64_t slot, const std::map<int, Expr>& from,
    bool together) {
  Body body;
  std::map<int, std::string> views;
  for (const auto& [r, offset] : from) {
    const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
    const Expr of_step = in_steps(access.offset) ? piece.k * i64(access.offset.coefficients[roles_.depth])
                                                 : part(access.offset, k);
    const Expr own = part(access.offset, copy.dims, piece.at) + of_step;
    views[r] = names_.fresh("v");
    const bool wide = together && access.offset.coefficients[along(copy)] != 0;
    body.push_back(stmt(View{views[r], storage_.name(access.tensor), offset + own,
        wide                 ? copy.width * lang::bytes(storage_.plan.program.tensor(access.tensor).dtype)
            : copy.width > 1 ? 1
                             : 0}));
  }
  for (std::int64_t c = 0; c < copy.width; ++c) {
    const auto read = [&](int r) {
      const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
      return Expr(Load{views.at(r), i64(c * access.offset.coefficients[along(copy)]),
          storage_.plan.program.tensor(access.tensor).dtype});
    };
    body.push_back(stmt(Store{copy.held, i64(slot + c), convert(factor_value(copy.factor, read), copy.type)}));
  }
  return body;
}

Body StagedCopies::put(const Copy& copy, const Expr& buffer) {
  Body body;
  for (std::size_t u = 0; u < copy.pieces.size(); ++u) {
    Body stores;
    for (std::int64_t c = 0; c < copy.width; ++c)
      stores.push_back(
          stmt(Store{copy.shared, buffer + copy.pieces[u].put + i64(c * (copy.along_depth ? copy.pitch : 1)),
              Load{copy.held, i64(static_cast<std::int64_t>(u) * copy.width + c), copy.type}}));
    if (!copy.partial || u + 1 < copy.pieces.size()) {
      append(body, std::move(stores));
      continue;
    }
    const Expr mine =
        less(var(thread_), i64(depth_ * copy.side / copy.width - static_cast<std::int64_t>(u) * threads_));
    body.push_back(stmt(If{mine, std::move(stores), {}}));
  }
  return body;
}

}  // namespace tilec::codegen
