// A Program as Tile that reads back to the same Program.
//
// What the text leaves unsaid is left unsaid: the rows that the printed accesses imply, the types that build infers.
// What the accesses do not imply is a constraint: after `dA[i] = +(dO[i])` lost its read of B[i + j], the point set is
// kept by `0 <= i + j < M`. The implied rows follow in a comment, for the reader.
//
// Constraints, as contraction.cpp reads them:      0 <= p < e     {p, e}, without asking that p is an integer
//                                                  p < e          {p, e}, and p is an integer
//                                                  p >= 0         {p, -}
#include "poly/print.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "poly/interpret.h"
#include "poly/intrinsic.h"
#include "poly/print_value.h"

namespace tilec::poly {
namespace {

using Names = std::vector<std::string>;

std::string joined(const Names& parts, std::string_view separator = ", ") {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : std::string(separator)) + part;
  return text;
}

std::string sizes_text(const std::vector<Size>& shape) {
  Names all;
  for (const auto& size : shape) all.push_back(size.print());
  return joined(all);
}

std::set<std::string> taken_names(const Program& program) {
  std::set<std::string> taken{"function", "default", "no_defract", "inf", "nan"};
  for (const auto& tensor : program.tensors) taken.insert(tensor.name);
  taken.insert(program.sizes.begin(), program.sizes.end());
  return taken;
}

// Index names that nothing else in the program has.
Names free_names(const std::set<std::string>& taken, const Names& indices) {
  Names names;
  for (const auto& wish : indices) {
    std::string name = wish;
    for (int k = 1; taken.contains(name) || std::find(names.begin(), names.end(), name) != names.end(); ++k)
      name = fmt::format("{}_{}", wish, k);
    names.push_back(name);
  }
  return names;
}

std::string access_text(const Program& program, const Access& access, const Names& indices) {
  Names element;
  for (const auto& affine : access.element) element.push_back(affine.print(indices));
  return fmt::format("{}[{}]", program.tensor(access.tensor).name, joined(element));
}

std::string_view symbol(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::Assign: return "=";
    case Aggregation::Sum: return "+";
    case Aggregation::Product: return "*";
    case Aggregation::Max: return ">";
    case Aggregation::Min: return "<";
  }
  return "";
}

// The value and its type.

// The other way round from accumulate_in: f32(A[i]) * f32(B[i])   ⇒   A[i] * B[i], in f16
Expr narrowed(const Expr& value, DType wide, DType type) {
  if (const auto* cast = value.as<Cast>(); cast && cast->type == wide && cast->operand.type() == type)
    return cast->operand;
  if (const auto* number = value.as<Number>(); number && number->type == wide) return convert(*number, type);
  const auto* apply = value.as<Apply>();
  if (!apply || apply->type != wide) return value;
  Apply narrow{apply->op, {}, type};
  for (std::size_t k = 0; k < apply->operands.size(); ++k)
    narrow.operands.push_back(
        apply->op == Op::Select && k == 0 ? apply->operands[k] : narrowed(apply->operands[k], wide, type));
  return narrow;
}

void cast_types(const Expr& value, DType wide, std::set<DType>& types) {
  if (const auto* cast = value.as<Cast>(); cast && cast->type == wide) types.insert(cast->operand.type());
  if (const auto* apply = value.as<Apply>(); apply && apply->type == wide)
    for (const auto& operand : apply->operands) cast_types(operand, wide, types);
}

// An index expression that became a number (after bind, in a class of defract) is one in the text.
Expr with_numbers(const Expr& value) {
  return value.match([&](const Number&) -> Expr { return value; }, [&](const Read&) -> Expr { return value; },
      [&](const Index& i) -> Expr {
        const auto number = i.value.is_constant() && i.value.divisor.is(1) ? i.value.constant.value() : std::nullopt;
        return number ? Expr{Number{i.type, wrap_to(i.type, *number), 0}} : value;
      },
      [&](const Cast& c) -> Expr { return Cast{with_numbers(c.operand), c.type}; },
      [&](const Apply& a) -> Expr {
        Apply result{a.op, {}, a.type};
        for (const auto& operand : a.operands) result.operands.push_back(with_numbers(operand));
        return result;
      });
}

struct Body { std::string text; bool typed; };         // typed: the target's type has to be written at the statement

Body body_text(const Program& program, const Statement& s, const Names& reads, const Names& indices) {
  const auto value = with_numbers(s.value);
  const auto target = program.tensor(s.target.tensor).dtype;
  // the signature has its type
  const bool result =
      std::find(program.outputs.begin(), program.outputs.end(), s.target.tensor) != program.outputs.end();
  std::vector<PrintedValue> candidates;
  std::set<DType> types;
  cast_types(value, value.type(), types);
  for (const auto type : types)
    if (const auto narrow = narrowed(value, value.type(), type); accumulate_in(narrow, value.type()) == value)
      candidates.push_back(print_value(narrow, reads, indices));
  if (const auto* cast = value.as<Cast>()) candidates.push_back(print_value(cast->operand, reads, indices));
  candidates.push_back(print_value(value, reads, indices));
  candidates.push_back({fmt::format("{}({})", lang::name(value.type()), candidates.back().text), Primary,
      cast(candidates.back().scalar, value.type())});
  for (const auto& candidate : candidates)
    for (const bool typed : {false, true}) {
      if (result && !typed) continue;
      lang::Diagnostics ignored;
      const auto built =
          folded(s.aggregation, candidate.scalar, typed ? std::optional(target) : std::nullopt, {}, ignored);
      if (built && built->result == target && built->value == value) return {candidate.text, typed && !result};
    }
  return {candidates[candidates.size() - 2].text, !result};
}

// The domain.

void find_reads(const Expr& value, std::set<int>& reads) {
  value.match([](const Number&) {}, [](const Index&) {}, [&](const Read& r) { reads.insert(r.read); },
              [&](const Cast& c) { find_reads(c.operand, reads); },
              [&](const Apply& a) {
                for (const auto& operand : a.operands) find_reads(operand, reads);
              });
}

void find_indices(const Affine& affine, std::set<std::size_t>& indices) {
  for (std::size_t k = 0; k < affine.coefficients.size(); ++k)
    if (!affine.coefficients[k].is(0)) indices.insert(k);
}

void find_indices(const Expr& value, std::set<std::size_t>& indices) {
  value.match([](const Number&) {}, [](const Read&) {}, [&](const Index& i) { find_indices(i.value, indices); },
              [&](const Cast& c) { find_indices(c.operand, indices); },
              [&](const Apply& a) {
                for (const auto& operand : a.operands) find_indices(operand, indices);
              });
}

// A side without an index truncates where it is written, so a constant fraction says in words that it is whole.
std::string row_text(const Range& row, const Names& indices);
std::string constant_fraction_text(const Affine& value, const std::optional<Size>& extent, const Names& indices) {
  const Size remainder = Size::apply(Size::Kind::Mod, {value.constant, value.divisor}),
             quotient = value.constant / value.divisor;
  const auto whole = [&](const Size& size) { return Affine::of(size, value.coefficients.size()); };
  return row_text({whole(remainder), 1}, indices) + ", " + row_text({whole(quotient), extent}, indices);
}

std::string row_text(const Range& row, const Names& indices) {
  if (row.value.is_constant() && !row.value.divisor.is(1))
    return constant_fraction_text(row.value, row.extent, indices);
  const auto value = row.value.print(indices);
  if (row.extent)
    return fmt::format("{}{} < {}", row.value.divisor.is(1) ? "0 <= " : "", value, row.extent->print(true));
  // Only `p < e` asks that p is an integer; no size reaches 2⁶².
  return row.value.divisor.is(1) ? value + " >= 0" : fmt::format("{} < {}", value, std::int64_t{1} << 62);
}

bool says_nothing(const Range& row) {
  const auto number = row.value.is_constant() && row.value.divisor.is(1) ? row.value.constant.value() : std::nullopt;
  if (!number || *number < 0) return false;
  return !row.extent || (row.extent->value() && *number < *row.extent->value());
}

struct Domain { Names implied, constraints; };

Domain domain_text(const Program& program, const Statement& s, const Names& indices) {
  std::set<int> read;
  find_reads(s.value, read);
  std::vector<Range> from_accesses;
  std::set<std::size_t> mentioned;
  const auto access = [&](const Access& a) {
    for (std::size_t d = 0; d < a.element.size() && d < program.tensor(a.tensor).shape.size(); ++d) {
      from_accesses.push_back({a.element[d], program.tensor(a.tensor).shape[d]});
      find_indices(a.element[d], mentioned);
    }
  };
  access(s.target);
  for (const int k : read)
    if (k >= 0 && static_cast<std::size_t>(k) < s.reads.size()) access(s.reads[static_cast<std::size_t>(k)]);
  find_indices(s.value, mentioned);
  Domain domain;
  for (const auto& row : s.domain) {
    if (says_nothing(row)) continue;
    const bool implied = std::find(from_accesses.begin(), from_accesses.end(), row) != from_accesses.end();
    (implied ? domain.implied : domain.constraints).push_back(row_text(row, indices));
    if (!implied && row.extent && row.value.divisor.is(1)) find_indices(row.value, mentioned);
  }
  // An index that only constraints mention needs a two-sided one.
  for (const auto& row : s.domain) {
    std::set<std::size_t> here;
    find_indices(row.value, here);
    if (!row.extent || row.value.divisor.is(1) ||
        std::includes(mentioned.begin(), mentioned.end(), here.begin(), here.end()))
      continue;
    mentioned.merge(here);
    domain.constraints.push_back(
        row_text({Affine{row.value.coefficients, row.value.constant, 1}, *row.extent * row.value.divisor}, indices));
  }
  return domain;
}

// Statements.

bool is_elementwise(const Statement& s) {
  if (s.aggregation != Aggregation::Assign || s.target.element.size() != s.indices.size()) return false;
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (s.target.element[k].single_index() != k) return false;
  return true;
}

std::string attributes(const Statement& s) {
  std::string text;
  const bool extreme = s.aggregation == Aggregation::Max || s.aggregation == Aggregation::Min;
  if (!s.kernel_name.empty()) text += fmt::format("[[name({})]] ", s.kernel_name);
  if (extreme && s.ties != Ties::Split) text += fmt::format("[[ties({})]] ", s.ties == Ties::First ? "first" : "all");
  if (s.keep != Keep::Free) text += s.keep == Keep::Save ? "[[save]] " : "[[recompute]] ";
  return text;
}

std::string fill_text(const Program& program, const Statement& s) {
  if (const auto* tensor = std::get_if<TensorId>(&s.fill)) return " default " + program.tensor(*tensor).name;
  const auto& number = std::get<Number>(s.fill);
  return number == Number{number.type} ? "" : " default " + print_number(number);
}

std::string statement_text(
    const Program& program, const Statement& s, const std::set<std::string>& taken, bool comments) {
  const auto indices = free_names(taken, s.indices);
  const auto& target = program.tensor(s.target.tensor);
  Names reads;
  for (const auto& read : s.reads) reads.push_back(access_text(program, read, indices));
  const auto body = body_text(program, s, reads, indices);
  auto access = access_text(program, s.target, indices);
  if (!target.shape.empty()) access.insert(access.size() - 1, ": " + sizes_text(target.shape));
  const auto domain = domain_text(program, s, indices);
  std::string text = fmt::format("{}{}{} = {}({})", attributes(s),
      body.typed ? fmt::format("{} ", lang::name(target.dtype)) : "", access, symbol(s.aggregation), body.text);
  for (const auto& constraint : domain.constraints) text += ", " + constraint;
  text += fill_text(program, s) + ";";
  if (comments && !domain.implied.empty() && !is_elementwise(s)) text += "  // domain " + joined(domain.implied);
  return text;
}

// `gather<1>(D, I)`: how many leading dimensions go together, when any do.
std::string batch_text(const Intrinsic& intrinsic) {
  return intrinsic.parameters[0].is(0) ? "" : fmt::format("<{}>", intrinsic.parameters[0].print());
}

std::string function_text(const Intrinsic& intrinsic) {
  switch (intrinsic.op) {
    case IntrinsicOp::Reshape: return "reshape";
    case IntrinsicOp::Gather: return "gather" + batch_text(intrinsic);
    case IntrinsicOp::Scatter: return "scatter" + batch_text(intrinsic);
    case IntrinsicOp::Sort: return intrinsic.parameters[0].is(0) ? "argsort" : "argsort_descending";
  }
  return "";
}

std::string intrinsic_text(const Program& program, const Intrinsic& intrinsic) {
  Names arguments;
  for (const auto id : intrinsic.operands) arguments.push_back(program.tensor(id).name);
  const auto& target = program.tensor(intrinsic.targets[0]);
  if (intrinsic.op == IntrinsicOp::Reshape)
    for (const auto& size : intrinsic.parameters) arguments.push_back(size.print());
  if (intrinsic.op == IntrinsicOp::Scatter)
    arguments.push_back(target.shape[static_cast<std::size_t>(intrinsic.parameters[0].get())].print());
  return fmt::format("{} = {}({});", target.name, function_text(intrinsic), joined(arguments));
}

// Inputs, then the scalars that are sizes: names that no input's shape declares.
Names parameters(const Program& program) {
  Names all;
  std::set<std::string> declared;
  for (const auto id : program.inputs) {
    const auto& tensor = program.tensor(id);
    all.push_back(fmt::format("{} {}[{}]", lang::name(tensor.dtype), tensor.name, sizes_text(tensor.shape)));
    for (const auto& size : tensor.shape)
      if (const auto names = size.names(); names.size() == 1 && size == Size::named(*names.begin()))
        declared.merge(size.names());
  }
  for (const auto& size : program.sizes)
    if (!declared.contains(size)) all.push_back(size);
  return all;
}

}  // namespace

std::string print(const Program& program, const Statement& statement) {
  return statement_text(program, statement, taken_names(program), false);
}

std::string print(const Program& program) {
  Names results;
  for (const auto id : program.outputs)
    results.push_back(fmt::format("{} {}", lang::name(program.tensor(id).dtype), program.tensor(id).name));
  std::string text = fmt::format("function{}{}({}) -> ({}) {{\n", program.name.empty() ? "" : " ", program.name,
      joined(parameters(program)), joined(results));
  for (const auto& requirement : program.requirements) {
    if (requirement.condition == Condition::Positions) continue;  // hardly ever in question
    const auto condition = requirement.condition == Condition::Nonzero
        ? requirement.left.print()
        : fmt::format("{} == {}", requirement.left.print(), requirement.right.print());
    text += fmt::format("  // assumes {}\n", condition);
  }
  const auto taken = taken_names(program);
  for (const auto& node : program.nodes) {
    const auto* statement = std::get_if<Statement>(&node);
    text += "  " +
        (statement ? statement_text(program, *statement, taken, true)
                   : intrinsic_text(program, std::get<Intrinsic>(node))) +
        "\n";
  }
  return text + "}\n";
}

}  // namespace tilec::poly
