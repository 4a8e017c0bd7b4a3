// The grammar of Tile in Boost Spirit X3, rule by rule, from tokens to items.
//
// Ordered choice backtracks (`f<2>(X)` is a call, `f < 2` a comparison, known only at the `(`), so expectation points
// are few (`sure`), and an error is reported where the parse got furthest, with everything that was expected there: of
// all alternatives, the one that understood most of the text is most likely the one that was meant. Every token writes
// down where it failed.
//
// Binary operators are one flat rule, grouped by precedence afterwards (precedence.h). `nested` counts the levels.

#include <boost/spirit/home/x3.hpp>

#include <limits>
#include <string>
#include <utility>

#include "lang/grammar/directives.h"
#include "lang/grammar/precedence.h"
#include "lang/grammar/progress.h"
#include "lang/grammar/tokens.h"

namespace tilec::lang::grammar {

// ---- actions -------------------------------------------------------------------------------------------------------

constexpr auto put = [](auto member) {
  return [member](auto& context) { x3::_val(context).*member = std::move(x3::_attr(context)); };
};
constexpr auto push = [](auto member) {
  return [member](auto& context) { (x3::_val(context).*member).push_back(std::move(x3::_attr(context))); };
};
constexpr auto set = [](auto member, auto value) {
  return [member, value](auto& context) { x3::_val(context).*member = value; };
};
constexpr auto keep = [](auto& context) { x3::_val(context) = std::move(x3::_attr(context)); };
// placed adds the span
constexpr auto make = [](auto& context) { x3::_val(context) = Expr(std::move(x3::_attr(context)), Span{}); };

struct Arm { Expr then, otherwise; };

constexpr auto group = [](auto& context) { x3::_val(context) = grouped(x3::_attr(context), progress(context)); };

constexpr auto select = [](auto& context) {
  const Expr condition = x3::_val(context);
  Arm& arm = x3::_attr(context);
  const Span span = join(condition.span(), arm.otherwise.span());
  x3::_val(context) = Expr(Select{condition, arm.then, arm.otherwise}, span);
  if (x3::_val(context).height() > max_height)
    throw TooDeep{progress(context).begin + arm.then.span().begin, max_height, "operators"};
};
// The second `? :` of a chain: legal, and not what C means.
constexpr auto select_again = [](auto& context) {
  select(context);
  progress(context).warnings.push_back({"", Severity::Warning, "select", x3::_val(context).span(), {}, {}});
};
constexpr auto half_select = [](auto& context) {
  const Expr condition = x3::_val(context), then = x3::_attr(context);
  x3::_val(context) = Expr(Select{condition, then, std::nullopt}, join(condition.span(), then.span()));
};
template <Op op>
constexpr auto negate = [](auto& context) { x3::_val(context) = Expr(Unary{op, x3::_attr(context)}, Span{}); };

// ---- rules ---------------------------------------------------------------------------------------------------------

template <class Id, class T> using rule = x3::rule<Id, T>;

constexpr Mark open("`(`"), close("`)`"), bracket("`[`", "["), unbracket("`]`"), brace("`{`"), unbrace("`}`");
constexpr Mark comma("`,`"), semicolon("`;`"), colon("`:`"), question("`?`"), arrow("`->`"), minus("`-`", ">"),
    tilde("`~`");
constexpr Mark equals("`=`", "="), twice("`==`"), less("`<`", "=<"), greater("`>`"), at_most("`<=`"), at_least("`>=`"),
    plus("`+`"), star("`*`");
constexpr Mark ellipsis("`...`");
constexpr Mark attribute_open("`[[`"), attribute_close("`]]`");
constexpr Word_ name(Kind::Any, "a name"), lower(Kind::Lower, "a lower-case name");
constexpr Callee callee(Kind::Any), lower_callee(Kind::Lower);
constexpr Numeral number(false), integer(true);
constexpr Quoted string;
constexpr Operator binary_operator(false), arithmetic_operator(true);

// Expressions
const rule<struct expr_id, Expr> expr = "an expression";
const rule<struct binary_id, Expr> binary = "an expression";
const rule<struct sum_id, Expr> sum = "a sum";
const rule<struct unary_id, Expr> unary = "an operand";
const rule<struct primary_id, Expr> primary = "an operand";
const rule<struct access_expr_id, Expr> access_expr = "an access";
const rule<struct access_id, Access> access = "an access";
const rule<struct angle_call_id, Call> angle_call = "a call";
const rule<struct plain_call_id, Call> plain_call = "a call";
const rule<struct variable_id, Variable> variable = "a name";
const rule<struct chain_id, Chain> chain = "an expression";
const rule<struct tail_id, Tail> tail = "an operator";
const rule<struct sum_chain_id, Chain> sum_chain = "a sum";
const rule<struct sum_tail_id, Tail> sum_tail = "an operator";
const rule<struct arm_id, Arm> arm = "`? :`";
const rule<struct signed_number_id, Number> signed_number = "a number";
const rule<struct computed_id, Expr> computed = "a number or a name";
const rule<struct computed_chain_id, Chain> computed_chain = "a number or a name";
const rule<struct computed_tail_id, Tail> computed_tail = "an operator";
const rule<struct computed_part_id, Expr> computed_part = "a number or a name";
const rule<struct plain_argument_id, Argument> plain_argument = "a number or a name";
const rule<struct argument_id, Argument> argument = "a number or a name";
const rule<struct label_id, Name> label = "a name";
const rule<struct given_id, Argument> given = "a number or a name";
struct InputGiven { std::optional<Name> label; Expr value; };
const rule<struct input_given_id, InputGiven> input_given = "an expression";
const rule<struct body_id, Expr> body = "a body";

// Index expressions
const rule<struct affine_id, Expr> affine = "an index expression";
const rule<struct affine_chain_id, Chain> affine_chain = "an index expression";
const rule<struct affine_tail_id, Tail> affine_tail = "an operator";
const rule<struct factor_id, Expr> factor = "an index expression";
const rule<struct coefficient_id, Expr> coefficient = "an index expression";

constexpr auto minus_number = [](auto& context) {
  Number number = std::move(x3::_attr(context));
  number.text.insert(0, "-");
  number.negative = true;
  number.real = -number.real;
  x3::_val(context) = std::move(number);
};
constexpr auto minus_inf = [](auto& context) {
  const Name& name = x3::_attr(context);
  const double real =
      name.text == "inf" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  x3::_pass(context) = name.text == "inf" || name.text == "nan";
  x3::_val(context).value = Number{"-" + name.text, true, 0, real, true};
};
constexpr auto make_variable = [](auto& context) {
  Name& name = x3::_attr(context);
  x3::_val(context) = Expr(Variable{name}, name.span);
};
// `2i`, which groups as `(2*i)`
constexpr auto coefficient_of = [](auto& context) {
  const Name& index = x3::_attr(context);
  x3::_val(context) = Expr(Binary{Op::Mul, x3::_val(context), Expr(Variable{index}, index.span), true}, Span{});
};
// `stride=2`, whose place is that of the 2.
constexpr auto labelled = [](auto& context) {
  std::optional<Name> label = std::move(x3::_val(context).label);
  x3::_val(context) = std::move(x3::_attr(context));
  x3::_val(context).label = std::move(label);
};
constexpr auto push_input = [](auto& context) {
  Call& call = x3::_val(context);
  InputGiven& given = x3::_attr(context);
  if (given.label) call.labels.resize(call.arguments.size());
  if (given.label || !call.labels.empty()) call.labels.push_back(std::move(given.label));
  call.arguments.push_back(std::move(given.value));
};
constexpr auto first_integer = [](auto& context) {
  Number& value = x3::_attr(context);
  x3::_val(context) = Expr(std::move(value), Span{});
};

const auto expr_def = binary[keep] >> -(arm[select] >> *arm[select_again]);
const auto arm_def = question >> nested[expr][put(&Arm::then)] >> colon >> binary[put(&Arm::otherwise)];
const auto body_def = binary[keep] >> -(arm[select] >> *arm[select_again]) >> -(question >> access_expr[half_select]);
const auto binary_def = chain[group];
const auto chain_def = unary[put(&Chain::first)] >> *tail[push(&Chain::tails)];
const auto tail_def = binary_operator[put(&Tail::op)] >> unary[put(&Tail::operand)];
const auto sum_def = sum_chain[group];
const auto sum_chain_def = unary[put(&Chain::first)] >> *sum_tail[push(&Chain::tails)];
const auto sum_tail_def = arithmetic_operator[put(&Tail::op)] >> unary[put(&Tail::operand)];
const auto unary_def = placed[named("an expression")[minus >> nested[unary][negate<Op::Neg>] |
    tilde >> nested[unary][negate<Op::Not>] | primary[keep]]];
const auto primary_def = placed[number[make] | angle_call[make] | plain_call[make] | access[make] | variable[make] |
    open >> nested[expr][keep] >> close];
const auto variable_def = name[put(&Variable::name)] >> -quiet[ellipsis][set(&Variable::pack, true)];
const auto access_expr_def = placed[named("an access such as `A[i]`")[access[make]]];
const auto access_def = name[put(&Access::tensor)] >> quiet[bracket] >>
    -(nested[affine][push(&Access::element)] % comma) >> unbracket;
const auto input_given_def = -quiet[label[put(&InputGiven::label)]] >> nested[expr][put(&InputGiven::value)];
const auto call_rest = -(input_given[push_input] % comma) >> close;
const auto plain_call_def = callee[put(&Call::function)] >> quiet[open] >> call_rest;
const auto angle_call_def = lower_callee[put(&Call::function)] >>
    quiet[less >> given[push(&Call::parameters)] % comma >> greater >> open] >> sure[call_rest];
const auto signed_number_def = minus >> number[minus_number] | number[keep];
// `K - 2`: without `<`, calls and reads, so that a comparison is read twice at most.
const auto computed_def = computed_chain[group];
const auto computed_chain_def = computed_part[put(&Chain::first)] >> *computed_tail[push(&Chain::tails)];
const auto computed_tail_def = arithmetic_operator[put(&Tail::op)] >> computed_part[put(&Tail::operand)];
const auto computed_part_def = placed[named("a number or a name")[minus >> nested[computed_part][negate<Op::Neg>] |
    number[make] | name[make_variable] | open >> nested[computed][keep] >> close]];
const auto plain_argument_def = placed[named("a number or a name")[minus >> name[minus_inf] |
    signed_number[put(&Argument::value)] | callee[put(&Argument::value)]]];
const auto argument_def = placed[named("a number or a name")[plain_argument[keep] >> !quiet[arithmetic_operator] |
    computed[put(&Argument::value)]]];
const auto label_def = name[keep] >> equals;
const auto given_def = -quiet[label[put(&Argument::label)]] >> argument[labelled];

const auto affine_def = affine_chain[group];
const auto affine_chain_def = factor[put(&Chain::first)] >> *affine_tail[push(&Chain::tails)];
const auto affine_tail_def = arithmetic_operator[put(&Tail::op)] >> factor[put(&Tail::operand)];
const auto coefficient_def = placed[integer[first_integer] >> quiet[lower][coefficient_of]];
const auto factor_def = placed[named("an index expression")[minus >> nested[factor][negate<Op::Neg>] |
    coefficient[keep] | integer[make] | plain_call[make] | variable[make] | open >> nested[affine][keep] >> close]];

BOOST_SPIRIT_DEFINE(expr, arm, body, binary, chain, tail, sum, sum_chain, sum_tail, unary, primary, variable,
    access_expr, access, plain_call, angle_call, signed_number, computed, computed_chain, computed_tail, computed_part,
    plain_argument, argument, label, given, input_given)
BOOST_SPIRIT_DEFINE(affine, affine_chain, affine_tail, coefficient, factor)

// Statements
const rule<struct target_id, Target> target = "a target";
const rule<struct word_id, Word> word = "an attribute";
const rule<struct value_id, Value> value = "a value";
const rule<struct attribute_id, Attribute> attribute = "an attribute";
const rule<struct tuple_id, TupleAssignment> tuple = "an assignment";
const rule<struct assignment_id, Assignment> assignment = "an assignment";
const rule<struct contraction_id, Contraction> contraction = "a contraction";
const rule<struct constraint_id, Constraint> constraint = "a constraint";
const rule<struct default_id, Default> default_clause = "`default`";
const rule<struct statement_id, Statement> statement = "a statement";

constexpr auto between = [](auto form) {
  return [form](auto& context) {
    Constraint& c = x3::_val(context);
    c.low = std::move(c.polynomial);
    c.polynomial = std::move(c.bound);
    c.bound = std::move(x3::_attr(context));
    c.form = form;
  };
};
constexpr auto compare = [](auto form) {
  return [form](auto& context) {
    x3::_val(context).bound = std::move(x3::_attr(context));
    x3::_val(context).form = form;
  };
};
// `p < e`; of `l < p <= e` the bound is the comparison `p <= e`, which bounds nothing else.
constexpr auto less_or_chain = [](auto& context) {
  Constraint& c = x3::_val(context);
  c.bound = std::move(x3::_attr(context));
  c.form = Constraint::Form::Less;
  const Binary* chain = c.bound.template as<Binary>();
  if (!chain || (chain->op != Op::Lt && chain->op != Op::Le)) return;
  c.form = chain->op == Op::Lt ? Constraint::Form::BetweenLess : Constraint::Form::BetweenLessEqual;
  c.low = std::move(c.polynomial);
  c.strict = true;
  c.polynomial = chain->left;
  c.bound = Expr(chain->right);
};
// `f32 Y`: the name read first was a type, if it is lower-case.
constexpr auto typed = [](auto& context) {
  Target& target = x3::_val(context);
  x3::_pass(context) = !target.name.upper;
  if (target.name.upper) return;
  target.dtype = std::move(target.name);
  target.name = std::move(x3::_attr(context));
};
constexpr auto nested_word = [](auto& context) {
  x3::_val(context).value = std::make_shared<const Word>(std::move(x3::_attr(context)));
};

using enum AggregationSyntax;
constexpr auto aggregation = [](AggregationSyntax syntax) { return set(&Contraction::aggregation, syntax); };
constexpr auto aggregation_name = [](auto& context) {
  x3::_val(context).aggregation = Named;
  x3::_val(context).aggregation_name = std::move(x3::_attr(context));
};

const auto target_def = placed[name[put(&Target::name)] >> -quiet[name][typed]];
const auto word_def = placed[name[put(&Word::name)] >>
    -(open[set(&Word::parentheses, true)] >> -(nested[value][push(&Word::values)] % comma) >> close)];
const auto value_def = placed[named("a word, a number or a string")[word[nested_word] |
    signed_number[put(&Value::value)] | string[put(&Value::value)]]];
const auto attribute_def = attribute_open >> word[keep] >> attribute_close;

const auto tuple_def =
    open >> target[push(&TupleAssignment::targets)] % comma >> close >> equals >> expr[put(&TupleAssignment::value)];
const auto assignment_def = target[put(&Assignment::target)] >> equals >> expr[put(&Assignment::value)];

const auto contraction_def = target[put(&Contraction::target)] >> bracket >>
    -(affine[push(&Contraction::element)] % comma >>
            -(colon[set(&Contraction::colon, true)] >> expr[push(&Contraction::sizes)] % comma) |
        colon[set(&Contraction::colon, true)]) >>
    unbracket >>
    (twice[aggregation(Assign)] >> open |
        equals >> named("an aggregation: `+(`, `*(`, `>(`, `<(` or `=(`")
                      [(plus[aggregation(Sum)] | star[aggregation(Product)] | greater[aggregation(Max)] |
                           less[aggregation(Min)] | equals[aggregation(Assign)] | name[aggregation_name]) >>
                          quiet[open]]) >>
    body[put(&Contraction::body)] >> close >> *(comma >> constraint[push(&Contraction::constraints)]) >>
    *(Keyword("`no_defract`")[set(&Contraction::no_defract, true)] |
        Keyword("`no_reduce`")[set(&Contraction::no_reduce, true)] | default_clause[put(&Contraction::default_value)]);
const auto constraint_def = placed[affine[put(&Constraint::polynomial)] >>
    named("`<`, `<=`, `>=` or `==`")[at_most >> sum[compare(Constraint::Form::LessEqual)] >>
            -(at_most >> sum[between(Constraint::Form::BetweenLessEqual)] |
                less >> sum[between(Constraint::Form::BetweenLess)]) |
        at_least >> sum[compare(Constraint::Form::GreaterEqual)] | twice >> sum[compare(Constraint::Form::Equal)] |
        less >> expr[less_or_chain]]];
const auto default_clause_def =
    placed[Keyword("`default`") >> named("a number or a name")[minus >> name[minus_inf] |
                                       signed_number[put(&Default::value)] | name[put(&Default::value)]]];
const auto statement_def = placed[named("a statement or `}`")[*attribute[push(&Statement::attributes)] >>
    -(tuple[put(&Statement::node)] | contraction[put(&Statement::node)] | assignment[put(&Statement::node)]) >>
    semicolon]];

BOOST_SPIRIT_DEFINE(
    target, word, value, attribute, tuple, assignment, contraction, constraint, default_clause, statement)

// Items
const rule<struct import_id, Import> import_item = "`import`";
const rule<struct dim_id, Dim> dim_item = "`dim`";
const rule<struct parameter_id, Parameter> parameter = "a parameter";
const rule<struct input_id, Input> input = "an input";
const rule<struct sizes_id, Access> sizes = "sizes";
const rule<struct heading_id, Function> heading = "a function";
const rule<struct item_id, Item> item = "an item";

constexpr auto role = [](Function::Role r) { return set(&Function::role, r); };
constexpr auto input_sizes = [](auto& context) { x3::_val(context).sizes = std::move(x3::_attr(context).element); };

const auto import_item_def = placed[Keyword("`import`") >> string[put(&Import::path)] >>
    -(Keyword("`as`") >> lower[put(&Import::prefix)]) >> semicolon];
const auto dim_item_def = placed[Keyword("`dim`") >> name[push(&Dim::names)] % comma >> semicolon];
constexpr auto first_choice = [](auto& context) {
  x3::_val(context).value = Argument{x3::_val(context).choices.front(), x3::_val(context).choices.front().span};
};
const auto choices = brace >> name[push(&Parameter::choices)] % comma >> unbrace;
const auto parameter_def = name[put(&Parameter::name)] >>
    -(equals >> named("a number, a name or `{`")[choices[first_choice] | argument[put(&Parameter::value)]]);
const auto sizes_def = bracket >> -(nested[expr][push(&Access::element)] % comma) >> unbracket;
const auto input_def =
    placed[target[put(&Input::target)] >> -sizes[input_sizes] >> -(equals >> plain_argument[put(&Input::value)])];
const auto head = named("a name")[lower[put(&Function::name)] >> quiet[less] >>
        sure[parameter[push(&Function::parameters)] % comma >> greater] |
    name[put(&Function::name)]];
const auto heading_def = placed[*attribute[push(&Function::attributes)] >>
    (Keyword("`function`")[role(Function::Role::Function)] >> -head |
        (Keyword("`gradient`")[role(Function::Role::Gradient)] | Keyword("`tangent`")[role(Function::Role::Tangent)]) >>
            head) >>
    open >> -(input[push(&Function::inputs)] % comma) >> close >> arrow >> open >>
    target[push(&Function::results)] % comma >> close >> brace];
const auto item_def = named("`function`, `import`, `dim`, `gradient` or `tangent`")[import_item[put(&Item::node)] |
    dim_item[put(&Item::node)] | heading[put(&Item::node)]];

BOOST_SPIRIT_DEFINE(import_item, dim_item, parameter, sizes, input, heading, item)

namespace {

template <class Rule, class T> bool read_as(const Rule& rule, Progress& progress, It& at, It end, T& out) {
  return x3::phrase_parse(at, end,
      x3::with<progress_tag>(std::ref(progress))[rule[([&](auto& context) { out = std::move(x3::_attr(context)); })]],
      x3::space, x3::skip_flag::dont_post_skip);
}

}  // namespace

bool read(Progress& progress, It& at, It end, Item& out) { return read_as(item, progress, at, end, out); }
bool read(Progress& progress, It& at, It end, Statement& out) { return read_as(statement, progress, at, end, out); }

}  // namespace tilec::lang::grammar
