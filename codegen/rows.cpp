// Grows sets of statements that can run row by row, in program order.
#include "codegen/rows.h"

#include <algorithm>

#include "codegen/rewrite.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Program;
using poly::Statement;

// How many leading target dimensions may become loops: contractions keep at least their last dimension for lanes.
std::size_t row_limit(const Statement& s, const Strides& strides) {
  const std::size_t rank = s.target.element.size();
  if (rank == 0) return 0;
  if (const auto scan = scan_of(s)) {                  // one turn has the whole scan
    std::size_t rows = 0;
    while (s.target.element[rows].coefficients[scan->along].is(0)) ++rows;
    return rows;
  }
  // A reduction down the unit stride of what it reads wants lanes over its last output dimension, many at a time.
  const auto last = plain_index(s.target.element.back());
  const bool down = reduces(s) && last && std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
    std::int64_t stride = 0;
    for (std::size_t d = 0; d < read.element.size(); ++d) stride += read.element[d].coefficients[*last].get() * strides[static_cast<std::size_t>(read.tensor)][d];
    return read.element.size() > 1 && stride == 1;
  });
  return down || (rank > 1 && reuses(s)) ? rank - 1 : rank;
}

class Rows {
 public:
  Rows(const Program& program, const Strides& strides, const Target& target) : program_(program), strides_(strides), target_(target) {}

  std::vector<Fused::Set> sets() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (!open_.nodes.empty() && joins(static_cast<int>(n))) continue;
      close();
      open_.nodes = {static_cast<int>(n)};
      rows_ = row_candidate(static_cast<int>(n));
    }
    close();
    return std::move(done_);
  }

 private:
  const Statement* statement(int node) const { return std::get_if<Statement>(&program_.nodes[static_cast<std::size_t>(node)]); }

  // 0 when the statement cannot share rows at all.
  std::size_t row_candidate(int node) const {
    const Statement* s = statement(node);
    if (has_threads(target_) && s && reuses(*s)) return 0;    // blocks of threads want whole contractions
    return s && covers(program_, *s) ? row_limit(*s, strides_) : 0;
  }

  bool joins(int node) {
    const Statement* s = statement(node);
    std::size_t rows = std::min(rows_, row_candidate(node));
    if (rows == 0) return false;
    bool dependent = false;
    for (const int earlier : open_.nodes) {
      const TensorId id = statement(earlier)->target.tensor;
      for (const Access& read : s->reads) {
        if (read.tensor != id) continue;
        dependent = true;
        std::size_t same = 0;
        while (same < rows && read.element[same] == s->target.element[same]) ++same;
        rows = same;
      }
    }
    if (!dependent || heavy() || !loops(*s, rows) || !same_extents(*s, rows)) return false;
    open_.nodes.push_back(node);
    if (local_bytes(rows) > budget()) {
      open_.nodes.pop_back();
      return false;
    }
    rows_ = rows;
    return true;
  }

  // A set that computes this much for an element gains nothing more from what a longer one would keep in cache, and a kernel that
  // grows without end is one that no other step can share.
  bool heavy() const {
    int cycles = 0;
    for (const int node : open_.nodes) cycles += weight(statement(node)->value);
    return cycles >= 512;
  }

  // Whether one of the first `rows` dimensions is an index at all.
  static bool loops(const Statement& s, std::size_t rows) {
    return std::any_of(s.target.element.begin(), s.target.element.begin() + static_cast<std::ptrdiff_t>(rows), [](const poly::Affine& e) { return plain_index(e).has_value(); });
  }

  bool same_extents(const Statement& s, std::size_t rows) const {
    const auto& first = program_.tensor(statement(open_.nodes.front())->target.tensor).shape;
    const auto& shape = program_.tensor(s.target.tensor).shape;
    for (std::size_t d = 0; d < rows; ++d)
      if (plain_index(s.target.element[d]).has_value() != plain_index(statement(open_.nodes.front())->target.element[d]).has_value()) return false;
    return std::equal(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rows), first.begin());
  }

  double budget() const { return static_cast<double>(has_threads(target_) ? target_.shared_bytes : target_.l2) / 2; }

  // What one row of every target of the set takes.
  double local_bytes(std::size_t rows) const {
    double bytes = 0;
    for (const int node : open_.nodes) {
      const poly::Tensor& tensor = program_.tensor(statement(node)->target.tensor);
      double row = lang::bytes(tensor.dtype);
      for (std::size_t d = rows; d < tensor.shape.size(); ++d) row *= static_cast<double>(tensor.shape[d].get());
      bytes += row;
    }
    return bytes;
  }

  void close() {
    if (open_.nodes.empty()) return;
    if (open_.nodes.size() > 1) {
      // Elementwise statements of one shape leave their last dimension to lanes, where the rows still fit.
      const auto inside = [&](int node) { return statement(node)->target.element.size() > rows_ || reduces(*statement(node)); };
      if (rows_ > 1 && std::none_of(open_.nodes.begin(), open_.nodes.end(), inside) && loops(*statement(open_.nodes.front()), rows_ - 1) && local_bytes(rows_ - 1) <= budget()) --rows_;
      open_.rows = rows_;
      const Statement& first = *statement(open_.nodes.front());
      for (std::size_t d = 0; d < rows_; ++d)
        if (const auto k = plain_index(first.target.element[d])) open_.indices.push_back(first.indices[*k]);
    }
    for (const int node : open_.nodes) open_.blocks = open_.blocks || (statement(node) && reuses(*statement(node)));
    done_.push_back(std::move(open_));
    open_ = {};
  }

  const Program& program_;
  const Strides& strides_;
  const Target& target_;
  Fused::Set open_;
  std::size_t rows_ = 0;
  std::vector<Fused::Set> done_;
};

// The set's loops have one name in all its statements; an index that had that name before gets another.
void rename_rows(Program& program, const Fused::Set& set) {
  for (const int node : set.nodes) {
    auto* s = std::get_if<Statement>(&program.nodes[static_cast<std::size_t>(node)]);
    if (!s || set.indices.empty()) continue;
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      if (std::find(set.indices.begin(), set.indices.end(), s->indices[k]) != set.indices.end()) s->indices[k] += "_";
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      while (std::count(s->indices.begin(), s->indices.end(), s->indices[k]) > 1) s->indices[k] += "_";
    for (std::size_t d = 0, next = 0; d < set.rows; ++d)
      if (const auto k = plain_index(s->target.element[d])) s->indices[*k] = set.indices[next++];
  }
}

}  // namespace

std::vector<Fused::Set> shared_rows(Program& program, const Strides& strides, const Target& target) {
  std::vector<Fused::Set> sets = Rows(program, strides, target).sets();
  for (const Fused::Set& set : sets) rename_rows(program, set);
  return sets;
}

}  // namespace tilec::codegen
