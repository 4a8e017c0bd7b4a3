#include "poly/sample.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include "poly/block.h"
#include "poly/points.h"

namespace tilec::poly {
namespace {

constexpr double steps_per_element = 16;               // to be stored
constexpr double steps_per_domain = 4096;              // to be enumerated for one element
constexpr double steps_per_run = 64;                   // to find its ends
constexpr double steps_per_mark = 4;                   // to note what a point reads

std::vector<std::int64_t> shape_of(const Program& program, TensorId id) {
  std::vector<std::int64_t> shape;
  for (const auto& size : program.tensor(id).shape) shape.push_back(size.get());
  return shape;
}

double count_of(const Program& program, TensorId id) {
  double count = 1;
  for (const auto& size : program.tensor(id).shape) count *= static_cast<double>(size.get());
  return count;
}

// Operations of a value, each occurrence: good enough for a guess.
double operations(const Expr& value) {
  return value.match([](const Cast& c) { return 1 + operations(c.operand); },
                     [](const Apply& a) {
                       double sum = 1;
                       for (const auto& operand : a.operands) sum += operations(operand);
                       return sum;
                     },
                     [](const Number&) { return 0.0; }, [](const auto&) { return 1.0; });
}

class Selector {
 public:
  Selector(const Program& program, const Effort& effort)
      : program_(program),
        effort_(effort),
        generator_(effort.seed + 0x9e3779b97f4a7c15),
        marks_(program.tensors.size()) {
    selection_.tensors.resize(program.tensors.size());
    for (const auto id : program.inputs) needed(id) = {true, {}};
  }

  // nullopt as soon as it takes more than `most`.
  std::optional<Selection> run(double most) {
    for (const auto id : program_.outputs) choose(id);
    for (std::size_t n = program_.nodes.size(); n-- > 0;) {
      if (!std::visit([&](const auto& node) { return trace(node, most); }, program_.nodes[n])) return std::nullopt;
    }
    return std::move(selection_);
  }
  double steps() const { return selection_.steps; }

  double steps_of_all(const Statement& statement) const {
    const Extent extent = points_at_most(statement.domain, statement.indices.size());
    return extent.points * (1 + operations(statement.value)) + extent.runs * steps_per_run +
        steps_per_element * count_of(program_, statement.target.tensor);
  }
  double steps_of_all(const Intrinsic& intrinsic) const {
    return steps_per_element * count_of(program_, intrinsic.targets.at(0));
  }

 private:
  Needed& needed(TensorId id) { return selection_.tensors[static_cast<std::size_t>(id)]; }

  void choose(TensorId id) {
    const double count = count_of(program_, id);
    if (count <= static_cast<double>(effort_.elements)) return need_all(id);
    const auto shape = shape_of(program_, id);
    std::set<std::size_t> chosen;
    while (chosen.size() < effort_.elements) chosen.insert(element(shape));
    for (const auto one : chosen) need(id, one);
  }

  // First and last positions more often than others: that is where faults are.
  std::size_t element(const std::vector<std::int64_t>& shape) {
    std::size_t at = 0;
    for (const auto extent : shape) {
      const auto size = static_cast<std::uint64_t>(extent), draw = generator_();
      const auto kind = draw % 16;
      at = at * size + (kind == 0 ? 0 : kind == 1 ? size - 1 : (draw >> 4) % size);
    }
    return at;
  }

  void need_all(TensorId id) {
    needed(id) = {true, {}};
    marks_[static_cast<std::size_t>(id)].clear();
  }

  void need(TensorId id, std::size_t element) {
    if (needed(id).all) return;
    auto& marks = marks_[static_cast<std::size_t>(id)];
    if (marks.empty()) marks.resize(static_cast<std::size_t>(count_of(program_, id)));
    marks[element] = true;
  }

  // What has been marked, once all readers have been seen. False: nothing.
  bool settle(TensorId id) {
    auto& marks = marks_[static_cast<std::size_t>(id)];
    for (std::size_t k = 0; k < marks.size(); ++k)
      if (marks[k]) needed(id).elements.push_back(k);
    marks.clear();
    return needed(id).all || !needed(id).elements.empty();
  }

  bool trace(const Intrinsic& intrinsic, double most) {
    const auto target = intrinsic.targets.at(0);
    if (!settle(target)) return true;
    for (const auto id : intrinsic.operands)
      if (intrinsic.op == IntrinsicOp::Reshape && !needed(target).all)
        for (const auto element : needed(target).elements) need(id, element);
      else need_all(id);
    if (intrinsic.op != IntrinsicOp::Reshape) needed(target) = {true, {}};  // the others compute it whole
    selection_.steps += steps_of_all(intrinsic);
    return selection_.steps <= most;
  }

  bool trace(const Statement& statement, double most) {
    const auto target = statement.target.tensor;
    if (!settle(target)) return true;
    const auto shape = shape_of(program_, target);
    double steps = steps_of_all(statement);
    if (!needed(target).all) {
      const double some = steps_of_some(statement, shape, needed(target).elements);
      if (some < steps || effort_.steps == 0) steps = some;
      else needed(target) = {true, {}};
    }
    selection_.steps += steps;
    if (selection_.steps > most) return false;
    const auto* otherwise = std::get_if<TensorId>(&statement.fill);
    if (needed(target).all) {
      for (const auto& read : statement.reads) need_all(read.tensor);
      if (otherwise != nullptr) need_all(*otherwise);
      return true;
    }
    if (otherwise != nullptr)
      for (const auto element : needed(target).elements) need(*otherwise, element);
    need_reads(statement, shape, needed(target).elements);
    return true;
  }

  double steps_of_some(const Statement& statement, const std::vector<std::int64_t>& shape,
      const std::vector<std::size_t>& elements) const {
    constexpr std::size_t tries = 16;
    const std::size_t stride = std::max<std::size_t>(1, elements.size() / tries);
    double points = 0, runs = 0, tried = 0;
    for (std::size_t k = 0; k < elements.size(); k += stride, ++tried) {
      const Extent extent = points_at_most(points_of(statement, shape, elements[k]), statement.indices.size());
      points += extent.points, runs += extent.runs;
    }
    const auto marks = static_cast<double>(std::ranges::count_if(statement.reads,
        [&](const Access& read) { return !selection_.tensors[static_cast<std::size_t>(read.tensor)].all; }));
    return static_cast<double>(elements.size()) *
        (points / tried * (1 + operations(statement.value) + steps_per_mark * marks) + runs / tried * steps_per_run +
            steps_per_domain);
  }

  void need_reads(
      const Statement& statement, const std::vector<std::int64_t>& shape, const std::vector<std::size_t>& elements) {
    std::vector<std::pair<TensorId, Location>> made;     // of tensors that are computed
    for (const auto& read : statement.reads)
      if (!needed(read.tensor).all)
        made.emplace_back(read.tensor, location(read, statement.domain, shape_of(program_, read.tensor)));
    const Visit visit = [&](std::span<std::int64_t> point, std::int64_t low, std::int64_t high) {
      for (auto last = low; last <= high; ++last) {
        if (!point.empty()) point.back() = last;
        for (const auto& [id, where] : made) need(id, where.at(point));
      }
    };
    for (const auto element : made.empty() ? std::vector<std::size_t>() : elements)
      for_each_run(points_of(statement, shape, element), statement.indices.size(), visit);
  }

  const Program& program_;
  const Effort& effort_;
  std::mt19937_64 generator_;
  std::vector<std::vector<bool>> marks_;                 // of tensors whose readers are being looked at
  Selection selection_;
};

}  // namespace

std::vector<Range> points_of(const Statement& statement, const std::vector<std::int64_t>& shape, std::size_t element) {
  std::vector<Range> rows = statement.domain;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[d]);
    const auto at = Affine::of(-static_cast<std::int64_t>(element % extent), statement.indices.size());
    rows.push_back({statement.target.element[d].plus(at), Size(1)});
    element /= extent;
  }
  return rows;
}

Selection everything(const Program& program) {
  Selection all{std::vector<Needed>(program.tensors.size(), {true, {}}), 0};
  return all;
}

Selection select(const Program& program, const Effort& effort) {
  Selection all = everything(program);
  const Selector of_all(program, effort);
  for (const auto& node : program.nodes) std::visit([&](const auto& n) { all.steps += of_all.steps_of_all(n); }, node);
  if (all.steps <= effort.steps) return all;
  // Where elements are dear, fewer: as the steps say, or a quarter, since what is known of the steps may not be all of
  // them.
  for (Effort less = effort; effort.steps > 0 && less.elements > 1;) {
    Selector selector(program, less);
    if (auto some = selector.run(effort.steps)) return *std::move(some);
    less.elements =
        static_cast<std::uint64_t>(std::clamp(static_cast<double>(less.elements) * effort.steps / selector.steps(), 1.0,
            static_cast<double>(less.elements) / 4 + 1));
  }
  return *Selector(program, {effort.steps, effort.steps > 0 ? 1 : effort.elements, effort.seed}).run(HUGE_VAL);
}

}  // namespace tilec::poly
