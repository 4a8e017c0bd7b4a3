// Parentheses are printed where the grammar needs them, and in three places where a reader does: around `?:` inside
// `?:`, around `|` beside `^` (so that the text earns no warning), and around `a < b` in a list, where `f < b, c > (d)`
// would read as a call.
//
// Comments are no part of the tree. They wait in File::trivia, in order of position, and are written before the first
// item or statement that ends behind them: a comment at the end of a line stays there, one inside a statement moves
// above it.

#include "lang/print.h"

#include <fmt/core.h>

#include <limits>
#include <optional>

namespace tilec::lang {
namespace {

constexpr std::size_t width = 100;

// ---- expressions ----------------------------------------------------------------------------------------------------

enum Level {
  Ternary,
  XorLevel,
  OrLevel,
  AndLevel,
  Equality,
  Relation,
  Shift,
  Additive,
  Multiplicative,
  Prefix,
  Primary
};

Level level(Op op) {
  switch (op) {
    case Op::Xor: return XorLevel;
    case Op::Or: return OrLevel;
    case Op::And: return AndLevel;
    case Op::Eq: case Op::Ne: return Equality;
    case Op::Lt: case Op::Le: case Op::Gt: case Op::Ge: return Relation;
    case Op::Shl: case Op::Shr: return Shift;
    case Op::Add: case Op::Sub: return Additive;
    default: return Multiplicative;
  }
}

// tight: `2*i` in indices and sizes, `A * B` elsewhere. listed: an element of a list of expressions.
struct Style { bool tight = false, listed = false; };

std::string expression(const Expr& e, int at_least, Style style);

std::string list(const std::vector<Expr>& all, bool tight) {
  std::string out;
  for (const Expr& e : all) out += (out.empty() ? "" : ", ") + expression(e, Ternary, {tight, all.size() > 1});
  return out;
}

std::string number(const Number& n) {
  if (!n.text.empty()) return n.text;
  if (!n.is_float) return fmt::format("{}{}", n.negative ? "-" : "", n.integer);
  std::string text = fmt::format("{}", n.real);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string argument(const Argument& a) {
  const std::string value = std::visit(
      Overloaded{[](const Number& n) { return number(n); }, [](const Name& name) { return name.spelled(); },
          [](const Expr& e) { return expression(e, Ternary, {}); }},
      a.value);
  return (a.label ? a.label->spelled() + '=' : "") + value;
}

std::string parameter(const Parameter& p) {
  std::string names;
  for (const Name& each : p.choices) names += (names.empty() ? "{" : ", ") + each.spelled();
  return p.name.spelled() + (!p.choices.empty() ? '=' + names + '}' : p.value ? '=' + argument(*p.value) : "");
}

// Does the text end in a lower-case name, which would make a `<` behind it the start of `f<…>(…)`?
bool ends_in_lower(const Expr& e) {
  return e.match([](const Variable& v) { return !v.name.upper; },
      [](const Binary& b) { return ends_in_lower(b.right); }, [](const Unary& u) { return ends_in_lower(u.operand); },
      [](const auto&) { return false; });
}

// `2i` stays as it was written; `2 e1` becomes `2*e1`, because `2e1` is a float.
bool stays_juxtaposed(const Binary& b) {
  const auto* index = b.right.as<Variable>();
  if (!b.juxtaposed || !index) return false;
  const std::string& name = index->name.text;
  return !(name.size() > 1 && name[0] == 'e' && name[1] >= '0' && name[1] <= '9');
}

std::string binary(const Binary& b, int at_least, Style style) {
  if (stays_juxtaposed(b)) return expression(b.left, Primary, style) + expression(b.right, Primary, style);
  const Level here = level(b.op);
  const bool chains = here != Equality && here != Relation;
  const bool call_like = style.listed && b.op == Op::Lt && ends_in_lower(b.left);
  const bool wrap = here < at_least || call_like;
  const Style inner{style.tight, style.listed && !wrap};
  const auto operand = [&](const Expr& e, int lowest) {
    const Binary* or_ = b.op == Op::Xor ? e.as<Binary>() : nullptr;
    return expression(e, or_ && or_->op == Op::Or ? Primary : lowest, inner);
  };
  const bool space = !style.tight || here != Multiplicative;
  const std::string text = fmt::format("{}{}{}{}{}", operand(b.left, chains ? here : here + 1), space ? " " : "",
      info(b.op).symbol, space ? " " : "", operand(b.right, here + 1));
  return wrap ? '(' + text + ')' : text;
}

std::string labelled(const Call& c, bool tight) {
  std::string out;
  for (std::size_t k = 0; k < c.arguments.size(); ++k)
    out += (k > 0 ? ", " : "") + (c.labels[k] ? c.labels[k]->spelled() + '=' : "") +
        expression(c.arguments[k], Ternary, {tight, c.arguments.size() > 1});
  return out;
}

std::string call(const Call& c, Style style) {
  std::string parameters;
  for (const Argument& a : c.parameters) parameters += (parameters.empty() ? "<" : ", ") + argument(a);
  return fmt::format("{}{}{}({})", c.function.spelled(), parameters, parameters.empty() ? "" : ">",
      c.labels.empty() ? list(c.arguments, style.tight) : labelled(c, style.tight));
}

std::string expression(const Expr& e, int at_least, Style style) {
  return e.match([](const Number& n) { return number(n); },
      [](const Variable& v) { return v.name.spelled() + (v.pack ? "..." : ""); },
      [&](const Unary& u) { return fmt::format("{}{}", info(u.op).symbol, expression(u.operand, Prefix, style)); },
      [&](const Binary& b) { return binary(b, at_least, style); },
      [](const Access& a) { return fmt::format("{}[{}]", a.tensor.spelled(), list(a.element, true)); },
      [&](const Call& c) { return call(c, style); },
      [&](const Select& s) {
        const Style inner{style.tight, style.listed && at_least == Ternary};
        std::string text = expression(s.condition, XorLevel, inner) + " ? " + expression(s.then, XorLevel, inner);
        if (s.otherwise) text += " : " + expression(*s.otherwise, XorLevel, inner);
        return at_least > Ternary ? '(' + text + ')' : text;
      });
}

// ---- statements -----------------------------------------------------------------------------------------------------

std::string word(const Word& w);

std::string value(const Value& v) {
  if (const auto* w = std::get_if<std::shared_ptr<const Word>>(&v.value)) return word(**w);
  if (const auto* n = std::get_if<Number>(&v.value)) return number(*n);
  return '"' + std::get<std::string>(v.value) + '"';
}

std::string word(const Word& w) {
  std::string values;
  for (const Value& v : w.values) values += (values.empty() ? "" : ", ") + value(v);
  return w.name.spelled() + (w.values.empty() ? "" : '(' + values + ')');
}

std::string target(const Target& t) { return t.dtype ? t.dtype->spelled() + ' ' + t.name.spelled() : t.name.spelled(); }

std::string targets(const std::vector<Target>& all) {
  std::string out;
  for (const Target& t : all) out += (out.empty() ? "" : ", ") + target(t);
  return out;
}

std::string constraint(const Constraint& c) {
  using enum Constraint::Form;
  const Style tight{true, false};
  const auto side = [&](const Expr& e) { return expression(e, Additive, tight); };
  const std::string p = side(c.polynomial);
  switch (c.form) {
    case Less: return p + " < " + expression(c.bound, Ternary, tight);
    case LessEqual: return p + " <= " + side(c.bound);
    case GreaterEqual: return p + " >= " + side(c.bound);
    case Equal: return p + " == " + side(c.bound);
    default:
      return side(*c.low) + (c.strict ? " < " : " <= ") + p + (c.form == BetweenLess ? " < " : " <= ") + side(c.bound);
  }
}

std::string aggregation(const Contraction& c) {
  using enum AggregationSyntax;
  switch (c.aggregation) {
    case Sum: return "+";
    case Product: return "*";
    case Max: return ">";
    case Min: return "<";
    case Assign: return "=";
    case Named: break;
  }
  return c.aggregation_name->spelled();
}

std::string contraction(const Contraction& c) {
  std::string out = fmt::format("{}[{}{}{}] = {}({})", target(c.target), list(c.element, true),
      c.sizes.empty() ? "" : ": ", list(c.sizes, true), aggregation(c), expression(c.body, Ternary, {}));
  for (const Constraint& k : c.constraints) out += ", " + constraint(k);
  if (c.no_defract) out += " no_defract";
  if (c.no_reduce) out += " no_reduce";
  if (c.default_value) {
    const auto* name = std::get_if<Name>(&c.default_value->value);
    out += " default " + (name ? name->spelled() : number(std::get<Number>(c.default_value->value)));
  }
  return out;
}

std::string flat(const Statement& s) {
  std::string out;
  for (const Attribute& a : s.attributes) out += (out.empty() ? "[[" : " [[") + word(a) + "]]";
  const std::string text = std::visit(
      Overloaded{[](std::monostate) { return std::string(); },
          [](const Assignment& a) { return target(a.target) + " = " + expression(a.value, Ternary, {}); },
          [](const TupleAssignment& t) { return '(' + targets(t.targets) + ") = " + expression(t.value, Ternary, {}); },
          [](const Contraction& c) { return contraction(c); }},
      s.node);
  return out + (out.empty() || text.empty() ? "" : " ") + text + ';';
}

// ---- lines ----------------------------------------------------------------------------------------------------------

// How unwelcome a line's end is at the blank at k: after a comma or before a clause, then before operators, loosest
// first.
std::optional<int> cost(std::string_view text, std::size_t k) {
  if (k > 0 && text[k - 1] == ',') return 0;
  const std::string_view rest = text.substr(k + 1);
  struct Entry { std::string_view mark; int cost; };
  static constexpr Entry table[] = {{"default ", 0}, {"no_defract", 0}, {"no_reduce", 0}, {"-> ", 0}, {"? ", 1},
      {": ", 1}, {"^ ", 2}, {"| ", 2}, {"& ", 2}, {"== ", 3}, {"!= ", 3}, {"< ", 3}, {"> ", 3}, {"<= ", 3}, {">= ", 3},
      {"<< ", 4}, {">> ", 4}, {"+ ", 5}, {"- ", 5}, {"* ", 6}, {"/ ", 6}};
  for (const Entry& entry : table)
    if (rest.starts_with(entry.mark)) return entry.cost;
  return std::nullopt;
}

// Where to end the first of several lines: the last of the least nested and least unwelcome places that fit, not within
// a target.
std::size_t break_at(std::string_view text, std::size_t room) {
  const std::size_t assigned = text.find(" = ");
  std::size_t best = std::string_view::npos;
  int depth = 0, least = std::numeric_limits<int>::max();
  bool quoted = false;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    const std::optional<int> here = c == ' ' ? cost(text, k) : std::nullopt;
    if (!here) continue;
    if (k > room) return best == std::string_view::npos ? k : best;
    const bool in_target = assigned != std::string_view::npos && k < assigned;
    const int price = in_target ? 1000 : 10 * depth + *here;
    if (price <= least && k > room / 4) best = k, least = price;
  }
  return best;
}

std::string wrapped(std::string text, std::size_t indent) {
  std::string out(indent, ' ');
  while (indent + text.size() > width) {
    const std::size_t k = break_at(text, width - indent);
    if (k == std::string::npos) break;
    out += text.substr(0, k) + '\n';
    text.erase(0, k + 1);
    if (out.find('\n') == out.size() - 1) indent += 4;
    out.append(indent, ' ');
  }
  return out + text + '\n';
}

// Lines of a file, with the trivia that belong between them.
class Writer {
 public:
  explicit Writer(const std::vector<Trivia>& trivia) : trivia_(trivia) {}

  void write(const File& file) {
    bool after_function = false;
    for (const auto& item : file.items) {
      const auto* function = std::get_if<Function>(&item);
      blank_ = function || after_function;
      after_function = function != nullptr;
      std::visit(Overloaded{[&](const Function& f) { write(f); },
                     [&](const Import& i) {
                       before(i.span, i.span.end, 0);
                       line(fmt::format("import \"{}\"{};", i.path, i.prefix ? " as " + i.prefix->text : ""), 0);
                     },
                     [&](const Dim& d) {
                       std::string names;
                       for (const Name& n : d.names) names += (names.empty() ? "" : ", ") + n.spelled();
                       before(d.span, d.span.end, 0);
                       line("dim " + names + ';', 0);
                     }},
          item);
    }
    constexpr auto end = std::numeric_limits<std::uint32_t>::max();
    before({end, end, 0}, end, 0);
  }

  void write(const Function& f) {
    before(f.span, f.body.begin, 0);
    for (const Attribute& a : f.attributes) line("[[" + word(a) + "]]", 0);
    line(heading(f) + " {", 0);
    first_ = true;
    for (const Statement& s : f.statements) {
      before(s.span, s.span.end, 2);
      line(flat(s), 2);
    }
    before({f.body.end, f.body.end, 0}, f.body.end, 2);
    blank_ = false;
    line("}", 0);
  }

  std::string take() { return std::move(out_); }

 private:
  const std::vector<Trivia>& trivia_;
  std::size_t next_ = 0;
  std::string out_;
  bool blank_ = false;                                 // a blank line is due, unless a block begins or ends here
  bool first_ = true;                                  // nothing in this block yet
  bool closed_ = true;                                 // the last line cannot take a comment behind it

  // The trivia that stand before `end`; those inside `span` move above it.
  void before(Span span, std::uint32_t end, std::size_t indent) {
    for (; next_ < trivia_.size() && trivia_[next_].span.begin < end; ++next_) {
      const Trivia& t = trivia_[next_];
      const bool inside = t.span.begin >= span.begin;
      if (t.text.empty()) blank_ = blank_ || !inside;
      else if (!inside && !t.own_line && !closed_) behind(t.text);
      else comment(t.text, indent);
    }
  }

  void behind(const std::string& text) {
    out_.insert(out_.size() - 1, "  " + text);
    closed_ = text.starts_with("//");
  }

  void comment(const std::string& text, std::size_t indent) {
    space();
    out_.append(indent, ' ').append(text) += '\n';
    closed_ = true;
  }

  void line(const std::string& text, std::size_t indent) {
    space();
    out_ += wrapped(text, indent);
    closed_ = false;
  }

  void space() {
    if (blank_ && !first_) out_ += '\n';
    blank_ = first_ = false;
  }
};

}  // namespace

std::string heading(const Function& f) {
  std::string out = f.role == Function::Role::Function ? "function "
      : f.role == Function::Role::Gradient             ? "gradient "
                                                       : "tangent ";
  if (f.name) out += f.name->spelled();
  std::string inner;
  for (const Parameter& p : f.parameters) inner += (inner.empty() ? "<" : ", ") + parameter(p);
  out += inner + (inner.empty() ? "(" : ">(");
  inner.clear();
  for (const Input& i : f.inputs)
    inner += (inner.empty() ? "" : ", ") + target(i.target) + (i.sizes ? '[' + list(*i.sizes, true) + ']' : "") +
        (i.value ? '=' + argument(*i.value) : "");
  return out + inner + ") -> (" + targets(f.results) + ")";
}

std::string print(const File& file) {
  Writer writer(file.trivia);
  writer.write(file);
  return writer.take();
}

std::string print(const Function& function) {
  const std::vector<Trivia> none;
  Writer writer(none);
  writer.write(function);
  return writer.take();
}

std::string print(const Statement& statement) { return flat(statement); }
std::string print(const Expr& e) { return expression(e, Ternary, {}); }
std::string print(const Argument& value) { return argument(value); }

}  // namespace tilec::lang
