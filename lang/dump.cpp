#include <fmt/core.h>

#include "lang/print.h"

namespace tilec::lang {
namespace {

// One node a line, two blanks a level.
class Tree {
 public:
  std::string out;

  void file(const File& f) {
    for (const auto& item : f.items)
      std::visit(Overloaded{[&](const Import& i) {
                              line(fmt::format("import \"{}\"{}", i.path, i.prefix ? " as " + i.prefix->text : ""));
                            },
                     [&](const Dim& d) {
                       node("dim", [&] {
                         for (const Name& n : d.names) line(n.spelled());
                       });
                     },
                     [&](const Function& g) { function(g); }},
          item);
  }

 private:
  int depth_ = 0;

  void line(const std::string& text) { out += fmt::format("{:{}}{}\n", "", depth_ * 2, text); }
  template <class Inner> void node(const std::string& text, Inner inner) {
    line(text);
    ++depth_;
    inner();
    --depth_;
  }

  void function(const Function& f) {
    const std::string_view role = f.role == Function::Role::Function ? "function"
        : f.role == Function::Role::Gradient                         ? "gradient"
                                                                     : "tangent";
    node(fmt::format("{}{}", role, f.name ? ' ' + f.name->spelled() : ""), [&] {
      for (const Attribute& a : f.attributes) word("attribute ", a);
      for (const Parameter& p : f.parameters) {
        line("parameter " + p.name.spelled());
        if (p.value) node("default", [&] { argument(*p.value); });
        for (const Name& each : p.choices) node("choice", [&] { line("name " + each.spelled()); });
      }
      for (const Input& i : f.inputs)
        node(fmt::format("input {}{}", target(i.target), i.sizes ? "" : " of any rank"), [&] {
          if (i.sizes) expressions("size", *i.sizes);
          if (i.value) node("default", [&] { argument(*i.value); });
        });
      for (const Target& t : f.results) line("result " + target(t));
      for (const Statement& s : f.statements) statement(s);
    });
  }

  static std::string target(const Target& t) { return (t.dtype ? t.dtype->spelled() + ' ' : "") + t.name.spelled(); }

  void word(const std::string& prefix, const Word& w) {
    node(prefix + w.name.spelled(), [&] {
      for (const Value& v : w.values)
        std::visit(Overloaded{[&](const std::shared_ptr<const Word>& inner) { word("", *inner); },
                       [&](const Number& n) { number(n); }, [&](const std::string& s) { line('"' + s + '"'); }},
            v.value);
    });
  }

  void statement(const Statement& s) {
    for (const Attribute& a : s.attributes) word("attribute ", a);
    std::visit(Overloaded{[&](std::monostate) { line("empty"); },
                   [&](const Assignment& a) { node("assignment " + target(a.target), [&] { expression(a.value); }); },
                   [&](const TupleAssignment& t) {
                     node("tuple", [&] {
                       for (const Target& each : t.targets) line("target " + target(each));
                       expression(t.value);
                     });
                   },
                   [&](const Contraction& c) { contraction(c); }},
        s.node);
  }

  void contraction(const Contraction& c) {
    static constexpr std::string_view names[] = {"sum", "product", "max", "min", "assign"};
    const std::string how =
        c.aggregation_name ? c.aggregation_name->spelled() : std::string(names[static_cast<int>(c.aggregation)]);
    node(fmt::format("contraction {} {}", how, target(c.target)), [&] {
      expressions("index", c.element);
      expressions("size", c.sizes);
      node("body", [&] { expression(c.body); });
      for (const Constraint& k : c.constraints) constraint(k);
      if (c.no_defract) line("no_defract");
      if (c.no_reduce) line("no_reduce");
      if (c.default_value)
        node("default", [&] {
          std::visit(
              Overloaded{[&](const Number& n) { number(n); }, [&](const Name& n) { line("name " + n.spelled()); }},
              c.default_value->value);
        });
    });
  }

  void constraint(const Constraint& k) {
    static constexpr std::string_view names[] = {"<", "<=", ">=", "==", "<= <", "<= <="};
    const std::string_view name = names[static_cast<int>(k.form)];
    node(fmt::format("constraint {}", k.strict ? fmt::format("<{}", name.substr(2)) : name), [&] {
      if (k.low) expression(*k.low);
      expression(k.polynomial);
      expression(k.bound);
    });
  }

  void expressions(const std::string& what, const std::vector<Expr>& all) {
    for (const Expr& e : all) node(what, [&] { expression(e); });
  }

  void number(const Number& n) {
    if (n.is_float) line(fmt::format("number {}", n.real));
    else line(fmt::format("number {}{}", n.negative ? "-" : "", n.integer));
  }
  void argument(const Argument& a) {
    std::visit(
        Overloaded{[&](const Number& n) { number(n); }, [&](const Name& n) { line("name " + n.spelled()); },
            [&](const Expr& e) { expression(e); }},
        a.value);
  }

  void expression(const Expr& e) {
    e.match([&](const Number& n) { number(n); },
        [&](const Variable& v) { line((v.pack ? "pack " : "name ") + v.name.spelled()); },
        [&](const Unary& u) { node(std::string(info(u.op).name), [&] { expression(u.operand); }); },
        [&](const Binary& b) {
          node(std::string(info(b.op).name), [&] {
            expression(b.left);
            expression(b.right);
          });
        },
        [&](const Access& a) {
          node("access " + a.tensor.spelled(), [&] {
            for (const Expr& i : a.element) expression(i);
          });
        },
        [&](const Call& c) {
          node("call " + c.function.spelled(), [&] {
            for (const Argument& p : c.parameters)
              node(p.label ? "parameter " + p.label->spelled() : "parameter", [&] { argument(p); });
            for (std::size_t k = 0; k < c.arguments.size(); ++k)
              if (k < c.labels.size() && c.labels[k])
                node("input " + c.labels[k]->spelled(), [&] { expression(c.arguments[k]); });
              else
                expression(c.arguments[k]);
          });
        },
        [&](const Select& s) {
          node(s.otherwise ? "select" : "select or zero", [&] {
            expression(s.condition);
            expression(s.then);
            if (s.otherwise) expression(*s.otherwise);
          });
        });
  }
};

}  // namespace

std::string dump(const File& file) {
  Tree tree;
  tree.file(file);
  return std::move(tree.out);
}

}  // namespace tilec::lang
