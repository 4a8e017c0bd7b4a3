#include "cli/formula.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "codegen/nest.h"
#include "runtime/module.h"

namespace tilec::cli {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

struct Refused { std::string why; };

// Reads and constants of a product, through casts from one float type to another: rounding is the peer's own affair.
void factors_of(const poly::Expr& value, std::vector<int>& reads, double& constant) {
  if (const auto* read = value.as<poly::Read>()) return reads.push_back(read->read);
  if (const auto* number = value.as<poly::Number>()) {
    constant *= lang::is_float(number->type) ? number->real : static_cast<double>(number->integer);
    return;
  }
  if (const auto* cast = value.as<poly::Cast>();
      cast && lang::is_float(cast->type) && lang::is_float(cast->operand.type()))
    return factors_of(cast->operand, reads, constant);
  const auto* apply = value.as<poly::Apply>();
  if (!apply || apply->op != lang::Op::Mul) throw Refused{"its value is no product of tensors"};
  for (const poly::Expr& operand : apply->operands) factors_of(operand, reads, constant);
}

std::int64_t extent(const Program& program, const Access& access, std::size_t d) {
  return program.tensor(access.tensor).shape[d].get();
}

// One element, at 0: no index of the statement is left for it.
bool is_single(const Program& program, const Access& a, std::size_t d) {
  return a.element[d].is_constant() && extent(program, a, d) == 1;
}

bool is_plain(const Program& program, const Access& a) {
  for (std::size_t d = 0; d < a.element.size(); ++d)
    if (!is_single(program, a, d) && !a.element[d].single_index()) return false;
  return true;
}

// One statement, its indices and what each is of.
class Sum {
 public:
  Sum(const Program& program, const Statement& s) : program_(program), s_(s), extents_(s.indices.size(), -1) {
    if (s.aggregation != poly::Aggregation::Sum && s.aggregation != poly::Aggregation::Assign)
      throw Refused{"it is neither a sum nor a value"};
    factors_of(s.value, reads_, constant_);
    if (reads_.empty()) throw Refused{"it reads nothing"};
    for (const poly::Range& row : s.domain) {
      const auto k = row.value.single_index();
      if (k && row.extent && row.extent->value() && extents_[*k] < 0) extents_[*k] = row.extent->get();
      else conditions_.push_back(&row);
    }
    if (std::ranges::count(extents_, -1) > 0) throw Refused{"an index of it has no range of its own"};
    target_ = plain(s.target);
    if (std::vector<std::size_t> once = target_;
        (std::ranges::sort(once), std::ranges::adjacent_find(once) != once.end()))
      throw Refused{"it writes a part of its tensor only"};
  }

  std::string of(PeerKind peer, Formula& formula) const {
    std::string text = std::ranges::all_of(reads_, [&](int r) { return is_plain(program_, access(r)); })
        ? einsum(peer)
        : convolution(peer, formula);
    if (target_.size() < s_.target.element.size())
      text = fmt::format("{}.reshape({})", text, fmt::join(codegen::extents(program_.tensor(s_.target.tensor)), ", "));
    return constant_ == 1 ? text : fmt::format("{} * {}", text, constant_);
  }

 private:
  const Access& access(int read) const { return s_.reads[static_cast<std::size_t>(read)]; }
  std::string name(const Access& a) const { return python_name(program_.tensor(a.tensor).name); }

  // Without the dimensions of one element.
  std::string operand(const Access& a) const {
    std::vector<std::string> parts;
    bool all = true;
    for (std::size_t d = 0; d < a.element.size(); ++d)
      parts.push_back(is_single(program_, a, d) ? "0" : ":"), all = all && !is_single(program_, a, d);
    return all ? name(a) : fmt::format("{}[{}]", name(a), fmt::join(parts, ", "));
  }

  // The index of each other dimension, which it covers.
  std::vector<std::size_t> plain(const Access& a) const {
    std::vector<std::size_t> indices;
    for (std::size_t d = 0; d < a.element.size(); ++d) {
      if (is_single(program_, a, d)) continue;
      const auto k = a.element[d].single_index();
      if (!k || extents_[*k] != extent(program_, a, d)) throw Refused{fmt::format("it takes a part of `{}`", name(a))};
      indices.push_back(*k);
    }
    return indices;
  }

  std::string einsum(PeerKind peer) const {
    if (!conditions_.empty()) throw Refused{"its indices have a condition"};
    if (s_.indices.size() > 52) throw Refused{"it has more than 52 indices"};
    std::vector<bool> met(s_.indices.size(), false);
    const auto letters = [&](const std::vector<std::size_t>& indices) {
      std::string text;
      for (const std::size_t k : indices) met[k] = true, text += static_cast<char>(k < 26 ? 'a' + k : 'A' + (k - 26));
      return text;
    };
    std::vector<std::string> operands, subscripts;
    for (const int r : reads_) operands.push_back(operand(access(r))), subscripts.push_back(letters(plain(access(r))));
    if (std::ranges::count(met, false) > 0)
      throw Refused{fmt::format("nothing it reads has the index `{}`",
          s_.indices[static_cast<std::size_t>(std::ranges::find(met, false) - met.begin())])};
    const char* module = peer == PeerKind::Numpy ? "numpy" : peer == PeerKind::Torch ? "torch" : "jax.numpy";
    return fmt::format("{}.einsum('{}->{}', {}{})", module, fmt::join(subscripts, ","), letters(target_),
        fmt::join(operands, ", "), peer == PeerKind::Numpy ? ", optimize=True" : "");
  }

  // low, high: elements of padding
  struct Window { std::size_t output, tap; std::int64_t extent, stride, dilation, low, high; };

  static bool has(const std::vector<std::size_t>& all, std::size_t k) { return std::ranges::count(all, k) > 0; }

  Window window(const Access& image, std::size_t d, const std::vector<std::size_t>& filter) const {
    const Affine& e = image.element[d];
    std::vector<std::size_t> outputs, taps;
    for (std::size_t k = 0; k < s_.indices.size(); ++k) {
      if (e.coefficients[k].is(0)) continue;
      (has(target_, k) ? outputs : taps).push_back(k);
    }
    if (outputs.size() != 1 || taps.size() != 1 || !has(filter, taps[0]) || has(filter, outputs[0]) || !e.divisor.is(1))
      throw Refused{"it is neither a product over whole dimensions nor a convolution"};
    Window w{outputs[0], taps[0], extent(program_, image, d), e.coefficients[outputs[0]].get(),
        e.coefficients[taps[0]].get(), -e.constant.get(), 0};
    if (w.stride < 1 || w.dilation < 1) throw Refused{"its window runs backwards"};
    w.high = w.stride * (extents_[w.output] - 1) + w.dilation * (extents_[w.tap] - 1) + 1 - w.extent - w.low;
    return w;
  }

  static std::vector<std::size_t> joined(std::initializer_list<const std::vector<std::size_t>*> parts) {
    std::vector<std::size_t> all;
    for (const auto* part : parts) all.insert(all.end(), part->begin(), part->end());
    return all;
  }

  std::int64_t size(const std::vector<std::size_t>& indices) const {
    std::int64_t count = 1;
    for (const std::size_t k : indices) count *= extents_[k];
    return count;
  }

  // `text` with its dimensions, those of `from`, in the order of `to`.
  static std::string ordered(const std::string& text, const std::vector<std::size_t>& from,
      const std::vector<std::size_t>& to, PeerKind peer) {
    if (from == to) return text;
    std::vector<std::ptrdiff_t> order;
    for (const std::size_t k : to) order.push_back(std::ranges::find(from, k) - from.begin());
    return fmt::format("{}.{}({})", text, peer == PeerKind::Torch ? "permute" : "transpose", fmt::join(order, ", "));
  }

  std::string reshaped(
      const std::string& text, const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) const {
    return from == to ? text : fmt::format("{}.reshape({})", text, fmt::join(to, ", "));
  }

  std::vector<std::int64_t> extents_of(const std::vector<std::size_t>& indices) const {
    std::vector<std::int64_t> all;
    for (const std::size_t k : indices) all.push_back(extents_[k]);
    return all;
  }

  // Indices by what the peers call them: images are batch, channels (groups outermost), places; filters are channels of
  // the result, of the image, taps. lies: all of the image, in the order in which it lies.
  struct Roles {
    std::vector<std::size_t> lies, batch, group, shared, places, taps, features;
    std::vector<Window> windows;
  };

  Roles roles(const Access& image, const std::vector<std::size_t>& filter) const {
    Roles r;
    for (std::size_t d = 0; d < image.element.size(); ++d) {
      if (is_single(program_, image, d)) continue;
      if (const auto k = image.element[d].single_index()) {
        if (extents_[*k] != extent(program_, image, d))
          throw Refused{fmt::format("it takes a part of `{}`", name(image))};
        const bool in_target = has(target_, *k), in_filter = has(filter, *k);
        if (!in_target && !in_filter) throw Refused{"it sums over an index that its filter has not"};
        (in_target && in_filter ? r.group : in_target ? r.batch : r.shared).push_back(*k);
        r.lies.push_back(*k);
        continue;
      }
      r.windows.push_back(window(image, d, filter));
      r.places.push_back(r.windows.back().output), r.taps.push_back(r.windows.back().tap);
      r.lies.push_back(r.windows.back().output);
    }
    if (r.windows.size() > 3) throw Refused{"its window has more than three dimensions"};
    require_inside(image);
    for (const std::size_t k : filter)
      if (!has(r.group, k) && !has(r.shared, k) && !has(r.taps, k)) r.features.push_back(k);
    for (const std::size_t k : r.features)
      if (!has(target_, k)) throw Refused{"it sums over an index that its image has not"};
    if (joined({&r.batch, &r.group, &r.features, &r.places}).size() != target_.size() ||
        joined({&r.group, &r.shared, &r.features, &r.taps}).size() != filter.size())
      throw Refused{"an index stands in two places"};
    return r;
  }

  // That a read is inside the image is what padding says; no other condition has words.
  void require_inside(const Access& image) const {
    for (const poly::Range* row : conditions_) {
      bool inside = false;
      for (std::size_t d = 0; d < image.element.size(); ++d)
        inside =
            inside || (image.element[d] == row->value && row->extent && row->extent->is(extent(program_, image, d)));
      if (!inside) throw Refused{"its indices have a condition"};
    }
  }

  std::string image_operand(const Access& image, const Roles& r, PeerKind peer) const {
    std::vector<std::int64_t> shape{size(r.batch), size(r.group) * size(r.shared)};
    std::vector<std::int64_t> parts = extents_of(joined({&r.batch, &r.group, &r.shared}));
    for (const Window& w : r.windows) shape.push_back(w.extent), parts.push_back(w.extent);
    return reshaped(
        ordered(operand(image), r.lies, joined({&r.batch, &r.group, &r.shared, &r.places}), peer), parts, shape);
  }

  // A filter that is an input is brought into its order once, in front of what is measured.
  std::string filter_operand(const Access& weights, const std::vector<std::size_t>& filter, const Roles& r,
      PeerKind peer, Formula& formula) const {
    std::vector<std::int64_t> shape{size(r.group) * size(r.features), size(r.shared)};
    for (const std::size_t k : r.taps) shape.push_back(extents_[k]);
    const std::vector<std::size_t> order = joined({&r.group, &r.features, &r.shared, &r.taps});
    const std::string by = reshaped(ordered(operand(weights), filter, order, peer), extents_of(order), shape);
    if (by == name(weights) || std::ranges::count(program_.inputs, weights.tensor) == 0) return by;
    const std::string own = fmt::format("{}_filter", name(weights));
    if (std::ranges::count(formula.once, own, &Formula::Line::first) == 0)
      formula.once.emplace_back(own, peer == PeerKind::Torch ? by + ".contiguous()" : by);
    return own;
  }

  static std::string listed(const std::vector<Window>& windows, std::int64_t Window::* part) {
    std::vector<std::int64_t> all;
    for (const Window& w : windows) all.push_back(w.*part);
    return fmt::format("({},)", fmt::join(all, ", "));
  }

  static std::string in_torch(
      std::string image, const std::string& filter, const std::vector<Window>& windows, std::int64_t groups) {
    // as much on both sides gives as many places
    const bool even = std::ranges::all_of(
        windows, [](const Window& w) { return w.low >= 0 && w.high <= w.low && w.high + w.stride > w.low; });
    if (!even) {
      std::vector<std::int64_t> sides;                 // of the last dimension first
      for (auto w = windows.rbegin(); w != windows.rend(); ++w) sides.push_back(w->low), sides.push_back(w->high);
      image = fmt::format("torch.nn.functional.pad({}, ({}))", image, fmt::join(sides, ", "));
    }
    return fmt::format("torch.nn.functional.conv{}d({}, {}, stride={}, padding={}, dilation={}, groups={})",
        windows.size(), image, filter, listed(windows, &Window::stride), even ? listed(windows, &Window::low) : "0",
        listed(windows, &Window::dilation), groups);
  }

  static std::string in_jax(
      const std::string& image, const std::string& filter, const std::vector<Window>& windows, std::int64_t groups) {
    std::vector<std::string> sides;
    for (const Window& w : windows) sides.push_back(fmt::format("({}, {})", w.low, w.high));
    return fmt::format("jax.lax.conv_general_dilated({}, {}, {}, [{}], rhs_dilation={}, feature_group_count={})", image,
        filter, listed(windows, &Window::stride), fmt::join(sides, ", "), listed(windows, &Window::dilation), groups);
  }

  std::string convolution(PeerKind peer, Formula& formula) const {
    if (peer == PeerKind::Numpy) throw Refused{"NumPy has no convolution"};
    if (reads_.size() != 2)
      throw Refused{"it is neither a product over whole dimensions nor a convolution of two tensors"};
    const bool first = !is_plain(program_, access(reads_[0]));
    const Access &image = access(reads_[first ? 0 : 1]), &weights = access(reads_[first ? 1 : 0]);
    const std::vector<std::size_t> filter = plain(weights);
    const Roles r = roles(image, filter);
    const std::string in = image_operand(image, r, peer), by = filter_operand(weights, filter, r, peer, formula);
    const std::string out = peer == PeerKind::Torch ? in_torch(in, by, r.windows, size(r.group))
                                                    : in_jax(in, by, r.windows, size(r.group));
    std::vector<std::int64_t> shape{size(r.batch), size(r.group) * size(r.features)};
    for (const std::size_t k : r.places) shape.push_back(extents_[k]);
    const std::vector<std::size_t> order = joined({&r.batch, &r.group, &r.features, &r.places});
    return ordered(reshaped(out, shape, extents_of(order)), order, target_, peer);
  }

  const Program& program_;
  const Statement& s_;
  std::vector<std::int64_t> extents_;
  std::vector<int> reads_;
  double constant_ = 1;
  std::vector<const poly::Range*> conditions_;
  std::vector<std::size_t> target_;
};

}  // namespace

std::string python_name(const std::string& tensor) {
  std::string name = runtime::without_mark(tensor);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_'; }, '_');
  return name;
}

std::variant<Formula, NoFormula> formula_of(const Program& program, PeerKind peer) {
  Formula formula;
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    const std::string name =
        python_name(program.tensor(s ? s->target.tensor : std::get<poly::Intrinsic>(node).targets.front()).name);
    try {
      if (!s) throw Refused{"it is a gather, a scatter, a sort or a reshape"};
      formula.lines.emplace_back(name, Sum(program, *s).of(peer, formula));
    } catch (const Refused& refused) {
      return NoFormula{name, refused.why};
    }
  }
  for (const poly::TensorId id : program.outputs) formula.results.push_back(python_name(program.tensor(id).name));
  return formula;
}

}  // namespace tilec::cli
