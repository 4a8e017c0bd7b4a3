#include "lang/later.h"

#include <algorithm>

#include "lang/messages.h"

namespace tilec::lang {
namespace {

constexpr std::string_view later_functions[] = {
    "gather",       "scatter",           "prng_step",  "prng_value", "prng_state",   "sort",     "argsort",         "top_k",
    "argmax",       "argmin",            "cumsum",     "cumprod",    "broadcast", "match",          "simple_reduce",
    "quantize",     "builtin_softmax",   "builtin_logsoftmax",       "builtin_binary_crossentropy", "reverse_grad"};

class Later {
 public:
  Later(const File& file, Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {}

  bool run() {
    for (const auto& item : file_.items)
      if (const auto* f = std::get_if<Function>(&item)) function(*f);
    return fine_;
  }

 private:
  const File& file_;
  Diagnostics& diagnostics_;
  bool fine_ = true;

  Diagnostics::Entry say(Span span, std::string_view what) {
    fine_ = false;
    return diagnostics_.report(span, messages::unknown_function, what);
  }

  void function(const Function& f) {
    for (const Input& i : f.inputs)
      if (i.sizes) all(*i.sizes);
    for (const Statement& s : f.statements)
      std::visit(Overloaded{[](std::monostate) {}, [&](const Assignment& a) { expression(a.value); }, [&](const TupleAssignment& t) { expression(t.value); },
                            [&](const Contraction& c) {
                              all(c.element);
                              all(c.sizes);
                              expression(c.body);
                              for (const Constraint& k : c.constraints) expression(k.bound);
                            }},
                 s.node);
  }

  void all(const std::vector<Expr>& list) {
    for (const Expr& e : list) expression(e);
  }

  void expression(const Expr& e) {
    e.match([](const Number&) {}, [](const Variable&) {}, [&](const Unary& u) { expression(u.operand); },
            [&](const Binary& b) { expression(b.left), expression(b.right); }, [&](const Access& a) { all(a.element); },
            [&](const Call& c) {
              if (is_later_function(c.function.text) && definitions(file_, c.function).empty()) say(c.function.span, "`" + c.function.text + "`");
              all(c.arguments);
            },
            [&](const Select& s) {
              expression(s.condition), expression(s.then);
              if (s.otherwise) expression(*s.otherwise);
            });
  }
};

}  // namespace

bool is_later_function(std::string_view name) { return std::find(std::begin(later_functions), std::end(later_functions), name) != std::end(later_functions); }

bool within_this_version(const File& file, Diagnostics& diagnostics) { return Later(file, diagnostics).run(); }

}  // namespace tilec::lang
