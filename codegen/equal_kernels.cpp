// Of each kernel a key is written in which a name is its number in order of appearance, and in which the numbers that
// may differ are left out: constants that addresses end with, and whole numbers that values are compared with or that
// are stored. These gaps are noted beside it. Among kernels with one key, a gap with one number in all of them keeps
// it; gaps of a view whose numbers differ between any two kernels by the same are an offset of this view.
#include "codegen/equal_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "codegen/leaf.h"
#include "codegen/parts.h"
#include "lang/op.h"
#include "lang/type.h"

namespace tilec::codegen {
namespace {

constexpr std::size_t most_numbers = 8;                // that a kernel takes
constexpr std::int64_t largest_exact = 1 << 24;        // integers up to there are numbers of f32

constexpr std::size_t no_view = static_cast<std::size_t>(-1);
struct Gap {
  std::size_t view = no_view;                          // whose address it is in: position in the kernel's parameters
  std::int64_t number = 0;
};

// A number that an i64 becomes when it is converted to the constant's type.
std::optional<std::int64_t> whole(const Expr& e) {
  const Constant* c = e.as<Constant>();
  if (!c || c->type == DType::Bool) return std::nullopt;
  if (!lang::is_float(c->type)) return c->integer;
  const auto number = static_cast<std::int64_t>(std::abs(c->real) <= static_cast<double>(largest_exact) ? c->real : 0);
  return Constant{c->type, 0, static_cast<double>(number)} == *c ? std::optional(number) : std::nullopt;  // not -0
}

// What is the same for reading gaps and for filling them: where they are.
class Looker {
 public:
  explicit Looker(const Function& kernel) {
    for (std::size_t v = 0; v < kernel.views.size(); ++v) views_.emplace(kernel.views[v].name, v);
    leave_out_advancing(kernel.body);
  }

 protected:
  // The parameter whose element 0 it begins with, wherever it is read.
  std::size_t view(const std::string& name) const {
    const auto found = views_.find(name);
    return found == views_.end() ? no_view : found->second;
  }

  // The operand that is a gap. Not what is compared with loops' indices: borders are known when a kernel is compiled.
  std::optional<std::size_t> gap_of(const Operation& o) const {
    const bool compares = o.operands.size() == 2 && o.op != Op::Pow && lang::info(o.op).result == lang::Result::Boolean;
    for (std::size_t k = 0; compares && k < 2; ++k)
      if (whole(o.operands[k]) && !is_index(o.operands[1 - k])) return k;
    return std::nullopt;
  }

  static bool stored(const Expr& value) { return !lang::is_float(value.type()) && whole(value); }

  void note(const For& loop) { indices_.insert(loop.index); }
  void note(const Let& let) { if (let.value.type() == DType::I64 && is_index(let.value)) indices_.insert(let.name); }
  template <class Other> void note(const Other&) {}

 private:
  bool is_index(const Expr& e) const {
    return e.match([](const Constant&) { return false; }, [&](const Variable& v) { return indices_.contains(v.name); },
        [](const Load&) { return false; },
        [&](const Operation& o) {
          return std::ranges::any_of(o.operands, [&](const Expr& operand) { return is_index(operand); });
        },
        [&](const Convert& c) { return is_index(c.operand); });
  }

  void leave_out_advancing(const Body& body) {
    for (const Stmt& s : body) {
      if (const auto* branch = std::get_if<If>(&s.node))
        leave_out_advancing(branch->then), leave_out_advancing(branch->otherwise);
      if (const auto* loop = std::get_if<For>(&s.node)) {
        for (const Advance& advance : loop->advance) views_.erase(advance.view);
        leave_out_advancing(loop->body);
      }
    }
  }

  std::unordered_map<std::string, std::size_t> views_;
  std::set<std::string> indices_;                      // of loops, and what is computed from them alone
};

class Reader : public Looker {
 public:
  explicit Reader(const Loops& loops) : Looker(loops.functions.back()), kernel_(loops.functions.back()) {
    for (const Table& table : loops.tables) {
      declares(table.name), is(table.values.size());
      for (const std::int64_t value : table.values) is(value);
    }
    for (const Function& f : loops.functions) {
      in_kernel_ = &f == &kernel_;
      if (!in_kernel_) declares(f.name);
      is(f.views.size());
      for (const ViewParameter& v : f.views) number(v.name), is(v.type), is(v.direction), is(v.alignment);
      is(f.integers.size());
      for (const std::string& name : f.integers) number(name);
      holds(f.body);
    }
  }

  std::string key;
  std::vector<Gap> gaps;
  bool is_clear = true;                                // no parameter's name means something else anywhere

  template <class T> void is(const T& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void names(const std::string& name) { number(name); }
  void declares(const std::string& name) {
    is_clear = is_clear && view(name) == no_view;
    number(name);
  }
  void holds(const Body& body) {
    is(body.size());
    for (const Stmt& s : body) {
      is(s.node.index());
      if (in_kernel_) std::visit([&](const auto& x) { note(x); }, s.node);
      parts(s, *this);
    }
  }
  void accesses(const std::string& name, const Expr& offset) {
    number(name);
    const std::size_t v = in_kernel_ ? view(name) : no_view;
    if (v == no_view) return reads(offset);
    const auto [rest, constant] = constant_apart(offset);
    reads(rest);
    const ViewParameter& parameter = kernel_.views[v];
    const std::int64_t unit = std::max<std::int64_t>(1, parameter.alignment / lang::bytes(parameter.type));
    is((constant % unit + unit) % unit);
    gaps.push_back({v, constant});
  }
  void reads(const Expr& e) {
    e.match([&](const Constant& c) { is('c'), is(c.type), is(c.integer), is(std::bit_cast<std::int64_t>(c.real)); },
        [&](const Variable& v) { is('v'), number(v.name), is(v.type); },
        [&](const Load& l) { is('l'), is(l.type), accesses(l.view, l.offset); },
        [&](const Operation& o) {
          is('o'), is(o.op), is(o.type), is(o.operands.size());
          const auto at = in_kernel_ ? gap_of(o) : std::nullopt;
          for (std::size_t k = 0; k < o.operands.size(); ++k) k == at ? gap(o.operands[k]) : reads(o.operands[k]);
        },
        [&](const Convert& c) { is('t'), is(c.type), reads(c.operand); });
  }
  void stores(const Expr& value) { in_kernel_ && stored(value) ? gap(value) : reads(value); }

 private:
  void gap(const Expr& constant) {
    is('g'), is(constant.type());
    gaps.push_back({no_view, *whole(constant)});
  }
  void number(const std::string& name) {
    is(static_cast<std::uint32_t>(numbers_.try_emplace(name, numbers_.size()).first->second));
  }

  const Function& kernel_;
  bool in_kernel_ = false;
  std::unordered_map<std::string_view, std::size_t> numbers_;  // of names
};

// What stands in a gap; nothing: what stood there.
struct Filling {
  std::string name;                                    // of the view, or of the number
  std::int64_t constant = 0;                           // the view's
};

class Filler : public Looker {
 public:
  Filler(const Function& kernel, const std::vector<std::optional<Filling>>& fillings)
      : Looker(kernel), fillings_(fillings) {}

  template <class T> void is(const T&) {}
  void names(const std::string&) {}
  void declares(const std::string&) {}
  void holds(Body& body) {
    for (Stmt& s : body) {
      std::visit([&](const auto& x) { note(x); }, s.node);
      parts(s, *this);
    }
  }
  void accesses(std::string& name, Expr& offset) {
    const bool has_gap = view(name) != no_view;
    auto [rest, constant] = constant_apart(offset);
    if (!has_gap) return reads(offset);
    reads(rest);
    if (const std::optional<Filling>& filling = next()) name = filling->name, constant = filling->constant;
    offset = rest + Expr(constant);
  }
  void reads(Expr& e) {
    e = e.match([&](const Constant&) { return e; }, [&](const Variable&) { return e; },
        [&](Load l) -> Expr { return accesses(l.view, l.offset), l; },
        [&](Operation o) -> Expr {
          const auto at = gap_of(o);
          for (std::size_t k = 0; k < o.operands.size(); ++k) k == at ? gap(o.operands[k]) : reads(o.operands[k]);
          return o;
        },
        [&](Convert c) -> Expr { return reads(c.operand), c; });
  }
  void stores(Expr& value) { stored(value) ? gap(value) : reads(value); }

 private:
  void gap(Expr& constant) {
    const std::optional<Filling>& filling = next();
    if (!filling) return;
    const DType type = constant.type();
    constant = type == DType::I64 ? var(filling->name) : Expr(Convert{var(filling->name), type});
  }
  const std::optional<Filling>& next() { return fillings_.at(next_++); }

  const std::vector<std::optional<Filling>>& fillings_;
  std::size_t next_ = 0;
};

// Steps whose kernels have one key: what stands in the gaps of each.
struct Alike {
  std::vector<std::size_t> steps;
  std::vector<std::vector<Gap>> gaps;                  // of each step
};

void call_first(Lowered& package, const std::vector<std::size_t>& steps) {
  for (const std::size_t k : steps) {
    if (k == steps[0]) continue;
    package.steps[k].kernel = package.steps[steps[0]].kernel;
    package.steps[k].loops = package.steps[steps[0]].loops;
  }
}

// Those with equal numbers, and no others.
void call_equal(Lowered& package, const Alike& alike) {
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> equal;
  for (std::size_t m = 0; m < alike.steps.size(); ++m) {
    std::vector<std::int64_t> numbers;
    for (const Gap& gap : alike.gaps[m]) numbers.push_back(gap.number);
    equal[numbers].push_back(alike.steps[m]);
  }
  for (const auto& [numbers, steps] : equal) call_first(package, steps);
}

struct Declared {
  Names& taken;
  void declares(const std::string& name) { taken.take(name); }
  void names(const std::string&) {}
  void accesses(const std::string&, const Expr&) {}
  void reads(const Expr&) {}
  void stores(const Expr&) {}
  void holds(const Body& body) { for (const Stmt& s : body) parts(s, *this); }
  template <class T> void is(const T&) {}
};

Names names_in(const Loops& loops) {
  Names taken;
  for (const Table& table : loops.tables) taken.take(table.name);
  for (const Function& f : loops.functions) {
    taken.take(f.name);
    for (const ViewParameter& v : f.views) taken.take(v.name);
    for (const std::string& name : f.integers) taken.take(name);
    Declared{taken}.holds(f.body);
  }
  return taken;
}

void share(Lowered& package, const Alike& alike) {
  // of each step: where a view begins, or what stands in a gap of a value
  using Numbers = std::vector<std::int64_t>;
  std::map<std::pair<std::size_t, Numbers>, std::string> made;  // names of views and of numbers
  std::vector<Numbers> passed;
  std::vector<std::optional<Filling>> fillings;
  Function& kernel = package.steps[alike.steps[0]].loops.functions.back();
  Names taken = names_in(package.steps[alike.steps[0]].loops);
  Body views;
  std::vector<std::string> integers;
  for (std::size_t g = 0; g < alike.gaps[0].size(); ++g) {
    const std::size_t view = alike.gaps[0][g].view;
    Numbers numbers;
    for (const std::vector<Gap>& gaps : alike.gaps) numbers.push_back(gaps[g].number);
    const auto [low, high] = std::ranges::minmax(numbers);
    fillings.emplace_back();
    if (low == high) continue;
    if (view != no_view) for (std::int64_t& number : numbers) number -= low;
    const auto [at, is_new] = made.try_emplace({view, numbers});
    if (is_new) {
      if (made.size() > most_numbers) return call_equal(package, alike);
      passed.push_back(numbers);
      const std::string stem = view == no_view ? "number" : kernel.views[view].name;
      integers.push_back(taken.fresh(view == no_view ? stem : stem + "_at"));
      at->second = integers.back();
      if (view != no_view) {
        at->second = taken.fresh(stem + "_from");
        views.push_back(Stmt{View{at->second, stem, var(integers.back()), kernel.views[view].alignment}});
      }
    }
    fillings.back() = Filling{at->second, low};
  }
  Filler(kernel, fillings).holds(kernel.body);
  kernel.integers.insert(kernel.integers.end(), integers.begin(), integers.end());
  kernel.body.insert(kernel.body.begin(), views.begin(), views.end());
  for (std::size_t m = 0; m < alike.steps.size(); ++m)
    for (const Numbers& numbers : passed) package.steps[alike.steps[m]].numbers.push_back(numbers[m]);
  call_first(package, alike.steps);
}

// Which statements stand in which, without names and expressions: loops that are shared have the same. A key takes
// longer.
std::size_t skeleton(const Body& body) {
  std::size_t hash = body.size();
  const auto add = [&](std::size_t value) { hash = hash * 0x9e3779b97f4a7c15 + value; };
  for (const Stmt& s : body) {
    add(s.node.index());
    if (const auto* loop = std::get_if<For>(&s.node)) add(skeleton(loop->body));
    if (const auto* branch = std::get_if<If>(&s.node)) add(skeleton(branch->then)), add(skeleton(branch->otherwise));
  }
  return hash;
}

std::size_t skeleton(const Loops& loops) {
  std::size_t hash = loops.functions.size();
  for (const Function& f : loops.functions) hash = hash * 31 + skeleton(f.body) + f.views.size();
  return hash;
}

}  // namespace

Lowered share_kernels(Lowered package) {
  std::vector<std::size_t> skeletons;
  std::unordered_map<std::size_t, int> count;
  for (const Step& step : package.steps) ++count[skeletons.emplace_back(skeleton(step.loops))];
  std::unordered_map<std::string, std::size_t> known;  // keys
  std::vector<Alike> all;
  for (std::size_t k = 0; k < package.steps.size(); ++k) {
    if (count[skeletons[k]] < 2) continue;
    Reader reader(package.steps[k].loops);
    if (!reader.is_clear) continue;
    const auto [at, is_new] = known.try_emplace(std::move(reader.key), all.size());
    if (is_new) all.emplace_back();
    all[at->second].steps.push_back(k), all[at->second].gaps.push_back(std::move(reader.gaps));
  }
  for (const Alike& alike : all) if (alike.steps.size() > 1) share(package, alike);
  return package;
}

}  // namespace tilec::codegen
