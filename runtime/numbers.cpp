#include "runtime/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "poly/intern.h"
#include "runtime/error.h"

namespace tilec::runtime {

namespace {

using codegen::Request;
using poly::Expr;
using lang::Op;
using poly::Program;

// What becomes of one number in a program.
struct Uses {
  std::set<DType> met;                                   // types that what it meets brings it into; of a chain of them
                                                         // the narrowest
  bool computed = false;                                 // it is an operand before it meets a type
  bool counted = false;                                  // integer arithmetic that reals do not have makes something of
                                                         // it, or an integer meets it
};

bool is_differentiated(const Request& request) {
  return !std::ranges::all_of(request.derivatives, &codegen::Derivative::batch);
}

bool is_ring(Op op) {
  return op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Neg || op == Op::Abs || op == Op::Max ||
      op == Op::Min || op == Op::Select;
}

class Search {
 public:
  Search(const Program& program, poly::TensorId id) : id_(id) {
    for (const poly::Node& node : program.nodes) {
      const auto* statement = std::get_if<poly::Statement>(&node);
      if (!statement || std::ranges::count(statement->reads, id, &poly::Access::tensor) == 0) continue;
      statement_ = statement;
      look(statement->value);
    }
  }

  const Uses& uses() const { return uses_; }

 private:
  bool is_number(const Expr& e) const {
    const auto* read = e.as<poly::Read>();
    return read && statement_->reads[static_cast<std::size_t>(read->read)].tensor == id_;
  }

  // The narrowest type of the casts that lead from the number to here; none of a cast by name, which begins with one
  // into the type it has.
  std::optional<DType> met(const poly::Cast& cast) const {
    if (cast.type == cast.operand.type()) return std::nullopt;
    if (is_number(cast.operand)) return cast.type;
    const auto* inner = cast.operand.as<poly::Cast>();
    const std::optional<DType> below = inner ? met(*inner) : std::nullopt;
    return below && lang::bits(cast.type) < lang::bits(*below) ? cast.type : below;
  }

  bool is_made_of_it(const Expr& e) const {
    if (is_number(e)) return true;
    const auto* apply = e.as<poly::Apply>();
    return apply && std::ranges::any_of(apply->operands, [&](const Expr& operand) { return is_made_of_it(operand); });
  }

  void look(const Expr& e) {
    if (!seen_.insert(poly::address(e)).second) return;
    if (const auto* cast = e.as<poly::Cast>()) {
      if (!lang::is_float(cast->type) && cast->type != cast->operand.type() && is_made_of_it(cast->operand))
        uses_.counted = true;
      if (const std::optional<DType> type = met(*cast)) uses_.met.insert(*type);
      else look(cast->operand);
    }
    if (const auto* apply = e.as<poly::Apply>()) look_at(*apply, e);
  }

  void look_at(const poly::Apply& apply, const Expr& e) {
    for (const Expr& operand : apply.operands) look(operand);
    if (lang::info(apply.op).result == lang::Result::Boolean) return;
    if (std::ranges::any_of(apply.operands, [&](const Expr& operand) { return is_number(operand); }))
      uses_.computed = true;
    if (!lang::is_float(apply.type) && !is_ring(apply.op) && is_made_of_it(e)) uses_.counted = true;
  }

  poly::TensorId id_;
  const poly::Statement* statement_ = nullptr;
  std::set<const void*> seen_;
  Uses uses_;
};

std::optional<Uses> uses_of(const Program& program, const std::string& name) {
  for (const poly::TensorId id : program.inputs)
    if (without_mark(program.tensor(id).name) == name) return Search(program, id).uses();
  return std::nullopt;                                   // a size, or an input that is not there
}

std::optional<Program> built(const lang::File& file, Request request) {
  lang::Diagnostics unheard;                             // of a guess; who builds what is taken hears it
  request.derivatives.clear();
  std::optional<codegen::Stages> stages = codegen::compile(file, request, codegen::Until::Contraction, unheard);
  return stages ? std::move(stages->contraction) : std::nullopt;
}

// But for the inputs, whose types are what is asked about.
bool same_types(const Program& a, const Program& b) {
  if (a.tensors.size() != b.tensors.size() || a.inputs != b.inputs || a.outputs != b.outputs) return false;
  for (std::size_t id = 0; id < a.tensors.size(); ++id)
    if (a.tensors[id].dtype != b.tensors[id].dtype &&
        std::ranges::count(a.inputs, static_cast<poly::TensorId>(id)) == 0)
      return false;
  return true;
}

// The one type that the program needs the number in: of integers it meets the narrowest; none where two floats would
// round it differently.
std::optional<DType> needed(const Uses& uses) {
  if (uses.computed || uses.met.empty()) return std::nullopt;
  std::optional<DType> best;
  for (const DType type : uses.met) {
    if (lang::is_float(type) && uses.met.size() > 1) continue;
    if (!best || lang::bits(type) < lang::bits(*best)) best = type;
  }
  const auto floats = std::ranges::count_if(uses.met, [](DType type) { return lang::is_float(type); });
  return floats > 1 ? std::nullopt : best;
}

class Numbers {
 public:
  Numbers(
      const lang::File& file, const std::vector<Argument>& arguments, Request& request, lang::Diagnostics& diagnostics)
      : file_(file), arguments_(arguments), request_(request), diagnostics_(diagnostics) {}

  // A derivative is one by reals. An integer stays where only integers build, where reals would make other types, and
  // where the program computes with it as with no real.
  bool make_real(const std::vector<std::size_t>& plain) {
    std::vector<Wish> wishes;
    for (const std::size_t k : plain)
      if (argument(k).is_integer) wishes.push_back({k, DType::F64, true});
    const std::optional<Program> whole = wishes.empty() ? std::nullopt : built(file_, request_);
    if (!whole) return true;
    std::vector<std::size_t> counted;
    std::erase_if(wishes, [&](const Wish& wish) {
      const std::optional<Uses> uses = uses_of(*whole, given(wish.k).name);
      if (uses && uses->counted) counted.push_back(wish.k);
      return !uses || uses->counted;
    });
    const std::vector<Wish> left = take(wishes, *whole);
    for (const Wish& wish : left) counted.push_back(wish.k);
    return std::ranges::all_of(counted, [&](std::size_t k) { return is_integer_for_certain(k); });
  }

  // Every number gets the type that the program needs it in, so that each call is refused one that the type does not
  // have.
  bool make_typed(const std::vector<std::size_t>& plain) {
    const std::optional<Program> program = built(file_, request_);
    if (!program) return true;                           // who builds it next says why
    std::vector<Wish> wishes;
    for (const std::size_t k : plain) {
      const std::optional<Uses> uses = uses_of(*program, given(k).name);
      if (!uses) continue;
      if (!all_hold(k, *uses)) return false;
      const std::optional<DType> type = !is_differentiated(request_) ? needed(*uses) : std::nullopt;
      if (type && !always_holds(*type, k)) wishes.push_back({k, *type, false});
    }
    take(wishes, *program);
    return true;
  }

 private:
  poly::Given& given(std::size_t k) { return request_.signature.inputs[k]; }
  const Argument& argument(std::size_t k) { return *std::ranges::find(arguments_, given(k).name, &Argument::name); }

  struct Wish { std::size_t k; DType type; bool weak; };

  // Those that the program does not take: it would have other types, or not build. All together first, as nearly always
  // all are taken.
  std::vector<Wish> take(const std::vector<Wish>& wishes, const Program& whole) {
    if (wishes.empty() || take_all(wishes, whole)) return {};
    std::vector<Wish> left;
    for (const Wish& wish : wishes)
      if (wishes.size() == 1 || !take_all({wish}, whole)) left.push_back(wish);
    return left;
  }

  bool take_all(const std::vector<Wish>& wishes, const Program& whole) {
    const std::vector<poly::Given> before = request_.signature.inputs;
    for (const Wish& wish : wishes) given(wish.k).dtype = wish.type, given(wish.k).weak = wish.weak;
    const std::optional<Program> changed = built(file_, request_);
    if (changed && same_types(whole, *changed)) return true;
    request_.signature.inputs = before;
    return false;
  }

  // False, with an error, when the same call with a real has a derivative by it and this one has none.
  bool is_integer_for_certain(std::size_t k) {
    if (std::ranges::none_of(
            request_.derivatives, [](const codegen::Derivative& d) { return !d.batch && d.wrt.empty(); }))
      return true;
    const std::vector<poly::Given> before = request_.signature.inputs;
    given(k).dtype = DType::F64;
    const bool builds = built(file_, request_).has_value();
    request_.signature.inputs = before;
    if (!builds) return true;
    diagnostics_
        .report({}, messages::input_without_gradient, given(k).name,
            "an integer here, which the program computes with as one")
        .hint(fmt::format("give {}.0, or say by which inputs to differentiate", print_number(number_of(argument(k)))));
    return false;
  }

  // Reals of f32 and more have every integer of 64 bits.
  bool always_holds(DType type, std::size_t k) {
    return argument(k).is_integer && (type == DType::F32 || type == DType::BF16 || type == DType::F64);
  }

  bool all_hold(std::size_t k, const Uses& uses) {
    for (const DType type : uses.met) {
      if (holds(type, number_of(argument(k)))) continue;
      const std::string how =
          lang::is_float(type) ? "" : fmt::format("; a cast by name wraps: `{}({})`", lang::name(type), given(k).name);
      diagnostics_.report({}, messages::does_not_fit, misfit(argument(k)), lang::name(type))
          .hint(fmt::format("cast what it meets to a wider type, or declare `{}`{}", given(k).name, how));
      return false;
    }
    return true;
  }

  const lang::File& file_;
  const std::vector<Argument>& arguments_;
  Request& request_;
  lang::Diagnostics& diagnostics_;
};

}  // namespace

poly::Number number_of(const Argument& argument) {
  if (!argument.is_integer) return {DType::F64, 0, argument.real};
  return {argument.large ? DType::U64 : DType::I64, argument.integer, 0};
}

std::string misfit(const Argument& argument) {
  return fmt::format("{}, given for `{}`,", print_number(number_of(argument)), argument.name);
}

bool settle_numbers(const lang::File& file, const std::vector<Argument>& arguments,
    const std::vector<std::size_t>& plain, Request& request, lang::Diagnostics& diagnostics) {
  if (plain.empty()) return true;
  Numbers numbers(file, arguments, request, diagnostics);
  return (!is_differentiated(request) || numbers.make_real(plain)) && numbers.make_typed(plain);
}

}  // namespace tilec::runtime
