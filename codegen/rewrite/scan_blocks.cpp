#include "codegen/rewrite/scan_blocks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "codegen/part.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Statement;

// Keeps e in [0, end) where it is not there anyhow.
void bound(Statement& s, const Affine& e, std::int64_t least, std::int64_t most, std::int64_t end) {
  if (least < 0 || most >= end) s.domain.push_back({e, poly::Size(end)});
}

class ScanInBlocks {
 public:
  ScanInBlocks(Program& program, Strides& strides, const Statement& whole, const Scan& scan, std::int64_t block,
      const std::vector<std::size_t>& outputs)
      : program_(program),
        strides_(strides),
        whole_(whole),
        scan_(scan),
        block_(block),
        outputs_(outputs),
        length_(extent(whole, scan.along)),
        values_(extent(whole, scan.over)),
        blocks_((length_ + block - 1) / block),
        first_(scan.c > 0 ? -((scan.c + block - 1) / block) : 0),
        in_over_(fresh_index(whole, whole.indices[scan.over] + "_b")),
        in_along_(fresh_index(whole, whole.indices[scan.along] + "_b")) {}

  // The totals of the blocks.
  Statement parts() {
    const std::int64_t parts = blocks_ - 1 - first_;
    Frame f = frame(whole_, outputs_, {{in_over_, parts, false}, {whole_.indices[scan_.over], block_, true}});
    const std::size_t b = outputs_.size(), u = b + 1;
    f.map[scan_.over] = from_end(scan_.over, value_at(b, first_, u, f.count()), scan_.over_down);
    Statement total = seen_in(whole_, f, [&](const Affine& row) { return bounds_a_part(row); });
    bound(total, value_at(b, first_, u, f.count()), scan_.c + first_ * block_,
        scan_.c + (first_ + parts) * block_ - 1, values_);
    totals_ = new_tensor(program_, strides_, whole_, "_parts", f, b + 1);
    write_part(total, totals_, b + 1);
    drop_unused(total);
    return total;
  }

  // What each block begins with: the totals before it.
  Statement before() {
    const std::int64_t parts = blocks_ - 1 - first_;
    const Frame f = frame(whole_, outputs_, {{in_along_, blocks_, false}, {in_over_, parts, true}});
    const std::size_t b = outputs_.size();
    Statement before = seen_in(whole_, f, [](const Affine&) { return false; });
    before.value = poly::Read{0, whole_.value.type()};
    before.reads = {{totals_, {}}};
    for (std::size_t d = 0; d < b; ++d) before.reads[0].element.push_back(Affine::index(d, f.count()));
    before.reads[0].element.push_back(Affine::index(b + 1, f.count()));
    Affine earlier = Affine::index(b, f.count()).plus(Affine::index(b + 1, f.count()).times(poly::Size(-1)));
    earlier.constant = poly::Size(-1 - first_);
    before.domain.push_back({earlier, std::nullopt});
    offsets_ = new_tensor(program_, strides_, whole_, "_before", f, b + 1);
    write_part(before, offsets_, b + 1);
    return before;
  }

  // The scans of the blocks.
  Statement scans() const {
    std::vector<std::size_t> others;
    for (std::size_t k = 0; k < whole_.indices.size(); ++k)
      if (k != scan_.along && k != scan_.over) others.push_back(k);
    Frame f = frame(whole_, others,
        {{in_along_, blocks_, false}, {whole_.indices[scan_.along], block_, false},
            {whole_.indices[scan_.over], block_, true}});
    const std::size_t s = others.size(), t = s + 1, v = s + 2;
    const Affine place = Affine::index(s, f.count()).times(poly::Size(block_)).plus(Affine::index(t, f.count()));
    f.map[scan_.along] = from_end(scan_.along, place, scan_.along_down);
    f.map[scan_.over] = from_end(scan_.over, value_at(s, 0, v, f.count()), scan_.over_down);
    Statement rest = seen_in(
        whole_, f, [&](const Affine& row) { return !mentions(row, scan_.over) || !mentions(row, scan_.along); });
    rest.domain.push_back(
        {Affine::index(t, f.count()).plus(Affine::index(v, f.count()).times(poly::Size(-1))), std::nullopt});
    bound(rest, place, 0, blocks_ * block_ - 1, length_);
    bound(rest, value_at(s, 0, v, f.count()), scan_.c, scan_.c + blocks_ * block_ - 1, values_);
    Access offset{offsets_, {}};
    for (const std::size_t k : outputs_)
      offset.element.push_back(
          Affine::index(static_cast<std::size_t>(std::ranges::find(others, k) - others.begin()), f.count()));
    offset.element.push_back(Affine::index(s, f.count()));
    const Expr earlier_ones = poly::Read{static_cast<int>(rest.reads.size()), whole_.value.type()};
    rest.reads.push_back(std::move(offset));
    const Expr starts = poly::Apply{lang::Op::Eq,
        {Expr(poly::Index{Affine::index(v, f.count()), lang::DType::I64}), Expr(poly::Number{lang::DType::I64, 0, 0})},
        lang::DType::Bool};
    rest.value = poly::Apply{lang::Op::Select,
        {starts, combined(whole_.aggregation, earlier_ones, rest.value), rest.value}, whole_.value.type()};
    return rest;
  }

 private:
  // k of place u of block b: counted from the end where the scan is.
  Affine value_at(std::size_t b, std::int64_t shift, std::size_t u, std::size_t count) const {
    Affine k = Affine::index(b, count).times(poly::Size(block_)).plus(Affine::index(u, count));
    k.constant = poly::Size(scan_.c + shift * block_);
    return k;
  }
  Affine from_end(std::size_t k, Affine e, bool down) const {
    if (down) e = e.times(poly::Size(-1));
    e.constant = poly::Size(e.constant.get() + low(whole_, k) + (down ? extent(whole_, k) - 1 : 0));
    return e;
  }

  // Whether a row bounds the values of a part, where reads exist; not the triangle.
  bool bounds_a_part(const Affine& row) const {
    for (std::size_t k = 0; k < whole_.indices.size(); ++k)
      if (mentions(row, k) && k != scan_.over && std::ranges::find(outputs_, k) == outputs_.end()) return false;
    return true;
  }

  Program& program_;
  Strides& strides_;
  const Statement& whole_;
  const Scan& scan_;
  std::int64_t block_;
  const std::vector<std::size_t>& outputs_;
  std::int64_t length_, values_, blocks_, first_;      // elements, values, blocks; the block of value 0
  std::string in_over_, in_along_;
  TensorId totals_ = -1, offsets_ = -1;
};

}  // namespace

void scan_in_blocks(Program& program, Strides& strides, std::size_t n, const Scan& scan, std::int64_t block,
    const std::vector<std::size_t>& outputs) {
  const Statement whole = std::get<Statement>(program.nodes[n]);
  ScanInBlocks made(program, strides, whole, scan, block, outputs);
  Statement parts = made.parts(), before = made.before();
  program.nodes[n] = made.scans();
  insert(program, n, {std::move(parts), std::move(before)});
}

}  // namespace tilec::codegen
