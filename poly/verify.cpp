// The invariants of a Program, each a rule with a name; a breach says the statement, the rule and what was seen.
//
// What is known depends on the stage. Symbolic: an access is inside its tensor because its range rows are in the
// domain, by equality of Affines. Bound: or because intervals imply them, as after `bounds` drops what the hull
// implies. Whether every index is bounded, and an Assign injective, is asked of the user's program in `bounds`, not
// here.
#include "poly/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "poly/hull.h"
#include "poly/intrinsic.h"
#include "poly/print.h"
#include "poly/view.h"

namespace tilec::poly {
namespace {

// What rule 4 has against a value: nothing, or what was seen.
std::string type_fault(const Program& program, const Statement& s, const Expr& value);

std::string type_fault(const Apply& a) {
  const auto& op = lang::info(a.op);
  const bool select = a.op == Op::Select, boolean = op.result == lang::Result::Boolean;
  if (select && a.operands[0].type() != DType::Bool)
    return "a condition is typed " + std::string(lang::name(a.operands[0].type()));
  if (boolean && a.type != DType::Bool) return fmt::format("`{}` is typed {}", op.name, lang::name(a.type));
  const auto type = boolean ? a.operands[0].type() : a.type;
  for (std::size_t k = select; k < a.operands.size(); ++k)
    if (a.operands[k].type() != type)
      return fmt::format(
          "`{}` on {} has an operand of {}", op.name, lang::name(type), lang::name(a.operands[k].type()));
  const bool wrong = lang::is_float(type) ? op.integers_only : op.result == lang::Result::Float;
  return wrong ? fmt::format("`{}` on {}", op.name, lang::name(type)) : "";
}

std::string type_fault(const Program& program, const Statement& s, const Expr& value) {
  return value.match([](const Number&) { return std::string(); },
      [&](const Read& r) {
        const auto& tensor = program.tensor(s.reads[static_cast<std::size_t>(r.read)].tensor);
        return r.type == tensor.dtype ? "" : fmt::format("a read of `{}` is typed {}", tensor.name, lang::name(r.type));
      },
      [&](const Index& i) {
        return lang::is_integer(i.type) ? "" : "an index is typed " + std::string(lang::name(i.type));
      },
      [&](const Cast& c) { return type_fault(program, s, c.operand); },
      [&](const Apply& a) {
        for (const auto& operand : a.operands)
          if (auto fault = type_fault(program, s, operand); !fault.empty()) return fault;
        return type_fault(a);
      });
}

class Verifier {
 public:
  Verifier(const Program& program, Stage stage)
      : program_(program),
        stage_(stage),
        defined_(program.tensors.size()),
        sizes_(program.sizes.begin(), program.sizes.end()) {}

  void run() {
    names();
    for (const auto id : program_.inputs) define(id);
    for (const auto& node : program_.nodes) {
      where_ = name_of(node);
      statement_ = std::get_if<Statement>(&node);
      std::visit([this](const auto& n) { check(n); }, node);
    }
    where_ = "program", statement_ = nullptr;
    for (std::size_t id = 0; id < defined_.size(); ++id)
      require(defined_[id], "1, defined", "nothing makes `" + program_.tensors[id].name + "`");
    for (const auto id : program_.outputs) require(known(id), "1, outputs", "an output is no tensor");
  }

 private:
  void require(bool holds, std::string_view rule, const std::string& seen) const {
    if (holds) return;
    const auto text = statement_ && printable_ ? "\n  " + print(program_, *statement_) : "";
    throw lang::InternalError(fmt::format("verify, {}: rule {}: {}{}", where_, rule, seen, text));
  }

  bool known(TensorId id) const { return id >= 0 && static_cast<std::size_t>(id) < program_.tensors.size(); }

  std::string name_of(const Node& node) const {
    const auto* statement = std::get_if<Statement>(&node);
    const auto& targets =
        statement ? std::vector<TensorId>{statement->target.tensor} : std::get<Intrinsic>(node).targets;
    return targets.empty() || !known(targets[0])
        ? "a statement"
        : "the statement that makes `" + program_.tensor(targets[0]).name + "`";
  }

  void names() const {
    std::set<std::string> seen;
    for (const auto& tensor : program_.tensors) {
      require(!tensor.name.empty() && seen.insert(tensor.name).second, "1, names",
          "two tensors are called `" + tensor.name + "`");
      for (const auto& size : tensor.shape) check(size);
    }
  }

  void define(TensorId id) {
    require(known(id), "1, tensors", "a target or an input is no tensor");
    auto&& before = defined_[static_cast<std::size_t>(id)];
    require(!before, "1, single assignment", "`" + program_.tensor(id).name + "` is made twice");
    before = true;
  }

  void is_defined(TensorId id) const {
    require(known(id), "1, tensors", "a read is of no tensor");
    require(defined_[static_cast<std::size_t>(id)], "1, order",
        "`" + program_.tensor(id).name + "` is read before it is made");
  }

  void check(const Size& size) const {
    if (stage_ != Stage::Symbolic)
      return require(size.value().has_value(), "5, bound", "size `" + size.print() + "` is no number");
    for (const auto& name : size.names())
      require(sizes_.contains(name), "1, sizes", "`" + name + "` is no size of the program");
  }

  void check(const Affine& affine) const {
    require(affine.coefficients.size() == count_, "2, indices",
        fmt::format("{} coefficients for {} indices", affine.coefficients.size(), count_));
    for (const auto& coefficient : affine.coefficients) check(coefficient);
    check(affine.constant);
    check(affine.divisor);
    if (const auto divisor = affine.divisor.value())
      require(*divisor > 0, "2, divisors", "a divisor is " + affine.divisor.print());
  }

  void check(const Intrinsic& intrinsic) {
    for (const auto id : intrinsic.operands) is_defined(id);
    for (const auto& size : intrinsic.parameters) check(size);
    for (const auto id : intrinsic.targets) define(id);
    const auto words = fault(program_, intrinsic);
    require(words.empty(), "6, intrinsics", fmt::format("`{}`: {}", name(intrinsic.op), words));
    if (stage_ != Stage::Symbolic) extents(intrinsic);
  }

  void extents(const Intrinsic& intrinsic) const {
    for (const auto& [left, i, right, k] : equal_extents(program_, intrinsic)) {
      const auto &a = program_.tensor(left), &b = program_.tensor(right);
      require(a.shape[i] == b.shape[k], "6, intrinsics",
          fmt::format("dimension {} of `{}` is {}, dimension {} of `{}` is {}", i, a.name, a.shape[i].print(), k,
              b.name, b.shape[k].print()));
    }
    if (intrinsic.op == IntrinsicOp::Reshape)
      require(elements(intrinsic.targets[0]) == elements(intrinsic.operands[0]), "6, intrinsics",
          "`reshape` makes another number of elements");
  }

  std::int64_t elements(TensorId id) const {
    std::vector<std::int64_t> shape;
    for (const auto& size : program_.tensor(id).shape) shape.push_back(size.get());
    return product(shape);
  }

  void check(const Statement& s) {
    count_ = s.indices.size();
    printable_ = false;
    require(std::set<std::string>(s.indices.begin(), s.indices.end()).size() == count_, "2, indices",
        "two indices have one name");
    for (const auto& row : s.domain) {
      check(row.value);
      if (row.extent) check(*row.extent);
    }
    if (stage_ != Stage::Bound) occurs(s);
    if (stage_ == Stage::Bounded) hulls(s);
    for (const auto& read : s.reads) is_defined(read.tensor);
    const auto* tensor = std::get_if<TensorId>(&s.fill);
    if (tensor) is_defined(*tensor);
    define(s.target.tensor);
    forms(s);
    printable_ = true;
    inside(s);
    const auto mistyped = type_fault(program_, s, s.value);
    require(mistyped.empty(), "4, types", mistyped);
    fold(s);
    fill(s);
  }

  // What printing relies on: ranks, and a coefficient per index everywhere.
  void forms(const Statement& s) const {
    const auto access = [&](const Access& a) {
      const auto& tensor = program_.tensor(a.tensor);
      require(a.element.size() == tensor.shape.size(), "2, rank",
          fmt::format("`{}` has rank {}, its access {}", tensor.name, tensor.shape.size(), a.element.size()));
      for (const auto& affine : a.element) check(affine);
    };
    access(s.target);
    for (const auto& read : s.reads) access(read);
    forms(s, s.value);
  }

  void forms(const Statement& s, const Expr& value) const {
    value.match([](const Number&) {}, [&](const Index& i) { check(i.value); },
        [&](const Cast& c) { forms(s, c.operand); },
        [&](const Read& r) {
          require(r.read >= 0 && static_cast<std::size_t>(r.read) < s.reads.size(), "2, reads",
              fmt::format("read {} of {}", r.read, s.reads.size()));
        },
        [&](const Apply& a) {
          require(static_cast<int>(a.operands.size()) == lang::info(a.op).arity, "4, operands",
              fmt::format("`{}` has {} operands", lang::info(a.op).name, a.operands.size()));
          for (const auto& operand : a.operands) forms(s, operand);
        });
  }

  void occurs(const Statement& s) const {
    for (std::size_t k = 0; k < count_; ++k) {
      const bool found = std::any_of(
          s.domain.begin(), s.domain.end(), [k](const Range& row) { return !row.value.coefficients[k].is(0); });
      require(
          found || stage_ == Stage::Bounded, "2, indices", "index `" + s.indices[k] + "` is in no row of the domain");
    }
  }

  void hulls(const Statement& s) const {
    require(s.domain.size() >= count_, "5, bounded", "the domain does not start with a row per index");
    for (std::size_t k = 0; k < count_; ++k) {
      Affine alone = s.domain[k].value;
      alone.constant = 0;
      require(alone == Affine::index(k, count_) && s.domain[k].extent, "5, bounded",
          "row " + std::to_string(k) + " of the domain is no hull of `" + s.indices[k] + "`");
    }
  }

  void inside(const Statement& s) const {
    std::optional<Box> box;
    const auto access = [&](const Access& a) {
      const auto& tensor = program_.tensor(a.tensor);
      for (std::size_t d = 0; d < a.element.size(); ++d) {
        const Range row{a.element[d], tensor.shape[d]};
        if (always_holds(row) || std::find(s.domain.begin(), s.domain.end(), row) != s.domain.end()) continue;
        const bool numbers =
            stage_ != Stage::Symbolic || (has_numbers(row) && std::ranges::all_of(s.domain, has_numbers));
        if (numbers && !box) {
          box = Box{false, std::vector<Interval>(count_)};
          tighten(rows_of(s), *box);
        }
        const bool held = numbers && follows(row_of(row), rows_of(s), *box);
        require(held, "3, inside",
            fmt::format("no row keeps `{}` inside dimension {} of `{}`", row.value.print(s.indices), d, tensor.name));
      }
    };
    access(s.target);
    for (const auto& read : s.reads) access(read);
  }

  void fold(const Statement& s) const {
    const auto type = s.value.type(), target = program_.tensor(s.target.tensor).dtype;
    const auto seen = fmt::format("a value of {} is folded into `{}` of {}", lang::name(type),
        program_.tensor(s.target.tensor).name, lang::name(target));
    if (s.aggregation == Aggregation::Sum || s.aggregation == Aggregation::Product)
      require(lang::accumulator(type) == type, "4, fold", seen);
    if (s.aggregation == Aggregation::Max || s.aggregation == Aggregation::Min)
      require(type == target, "4, fold", seen);
  }

  void fill(const Statement& s) const {
    const auto& target = program_.tensor(s.target.tensor);
    if (const auto* number = std::get_if<Number>(&s.fill))
      return require(
          number->type == target.dtype, "4, fill", "the fill is typed " + std::string(lang::name(number->type)));
    const auto& tensor = program_.tensor(std::get<TensorId>(s.fill));
    require(tensor.dtype == target.dtype && tensor.shape.size() == target.shape.size(), "4, fill",
        "`" + tensor.name + "` has another type or rank");
    require(stage_ == Stage::Symbolic || tensor.shape == target.shape, "4, fill",
        "`" + tensor.name + "` has another shape");
  }

  const Program& program_;
  Stage stage_;
  std::vector<bool> defined_;
  std::set<std::string> sizes_;
  std::size_t count_ = 0;                              // of indices of the statement looked at
  std::string where_ = "program";
  const Statement* statement_ = nullptr;
  bool printable_ = false;
};

}  // namespace

void verify(const Program& program, Stage stage) { Verifier(program, stage).run(); }

}  // namespace tilec::poly
