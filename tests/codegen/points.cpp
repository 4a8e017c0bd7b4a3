#include "tests/codegen/points.h"

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "poly/evaluate.h"

namespace tilec::codegen {

namespace {

using Names = std::set<std::string>;

// Every variable and view that `expr` mentions.
void mentions(const Expr& expr, Names& names) {
  expr.match([](const Constant&) {},
             [&](const Variable& v) { names.insert(v.name); },
             [&](const Load& load) { names.insert(load.view), mentions(load.offset, names); },
             [&](const Operation& operation) { for (const Expr& e : operation.operands) mentions(e, names); },
             [&](const Convert& convert) { mentions(convert.operand, names); });
}

template <class Visit> void each_statement(const Body& body, const Visit& visit) {
  for (const Stmt& statement : body) {
    visit(statement);
    if (const For* loop = std::get_if<For>(&statement.node)) each_statement(loop->body, visit);
    if (const If* branch = std::get_if<If>(&statement.node))
      each_statement(branch->then, visit), each_statement(branch->otherwise, visit);
  }
}

// The names that conditions, bounds and arguments of calls depend on. A loop over any other index turns alike every
// time.
Names steering(const Body& body) {
  Names names;
  each_statement(body, [&](const Stmt& statement) {
    if (const For* loop = std::get_if<For>(&statement.node)) mentions(loop->extent, names);
    if (const If* branch = std::get_if<If>(&statement.node)) mentions(branch->condition, names);
    if (const CallStmt* call = std::get_if<CallStmt>(&statement.node)) {
      for (const Expr& e : call->integers) mentions(e, names);
      names.insert(call->views.begin(), call->views.end());
    }
  });
  for (std::size_t before = 0; before != names.size();) {
    before = names.size();
    each_statement(body, [&](const Stmt& statement) {
      if (const Let* let = std::get_if<Let>(&statement.node); let && names.contains(let->name))
        mentions(let->value, names);
      if (const View* view = std::get_if<View>(&statement.node); view && names.contains(view->name))
        names.insert(view->base), mentions(view->offset, names);
      if (const Store* store = std::get_if<Store>(&statement.node); store && names.contains(store->view))
        mentions(store->value, names);
      if (const For* loop = std::get_if<For>(&statement.node))
        for (const Advance& a : loop->advance)
          if (names.contains(a.view)) names.insert(loop->index), mentions(a.step, names);
    });
  }
  return names;
}

struct Place { const Table* table; std::int64_t offset; };
using Cell = std::pair<std::string, std::int64_t>;     // an element of a register array

// One call of a function. `pending` are the steps in a register that no store has taken to memory yet.
class Walk {
 public:
  Walk(const Loops& loops, const Function& function) : loops_(loops), steering_(steering(function.body)) {
    for (const Table& table : loops.tables) places_[table.name] = {&table, 0};
  }
  std::map<std::string, std::optional<std::int64_t>> integers;
  void place(const std::string& view, const Place& at) { places_[view] = at; }

  Steps run(const Body& body) {
    walk(body);
    Steps steps = done_;
    for (const auto& [cell, count] : pending_) steps.idle += count;
    return steps;
  }

 private:
  void walk(const Body& body) {
    for (const Stmt& statement : body) std::visit([&](const auto& s) { this->walk(s); }, statement.node);
  }
  void walk(const For& loop) {
    const std::int64_t extent = known(loop.extent);
    if (extent < 1 && loop.kind == Kind::Serial)
      throw std::runtime_error("the serial loop `" + loop.index + "` would turn " + std::to_string(extent) + " times");
    const auto places = places_;
    const Steps done = done_;
    const auto pending = pending_;
    const auto left = std::exchange(left_, {});
    const bool alike = !steering_.contains(loop.index);
    for (std::int64_t i = 0; i < (alike ? std::min<std::int64_t>(1, extent) : extent); ++i) {
      integers[loop.index] = i;
      walk(loop.body);
      for (const Advance& a : loop.advance)
        if (steering_.contains(a.view))
          if (const auto found = places_.find(a.view); found != places_.end()) found->second.offset += known(a.step);
    }
    places_ = places;
    if (alike && extent > 1) repeat(extent, done, pending);
    left_.insert(left.begin(), left.end());
  }
  // The turn just walked, `extent` times. A register that it leaves is found by the first turn as the loop found it, by
  // the others as a turn ends.
  void repeat(std::int64_t extent, const Steps& done, const std::map<Cell, std::int64_t>& pending) {
    const auto count_of = [](const std::map<Cell, std::int64_t>& counts, const Cell& cell) {
      const auto found = counts.find(cell);
      return found == counts.end() ? 0 : found->second;
    };
    Steps turn{done_.steps - done.steps, done_.idle - done.idle};
    for (const auto& [cell, member] : left_) turn.*member += count_of(pending_, cell) - count_of(pending, cell);
    done_.steps += turn.steps * (extent - 1);
    done_.idle += turn.idle * (extent - 1);
    for (auto& [cell, count] : pending_)
      if (!left_.contains(cell)) count += (count - count_of(pending, cell)) * (extent - 1);
  }
  void walk(const If& branch) { walk(known(branch.condition) != 0 ? branch.then : branch.otherwise); }
  void walk(const Let& let) {
    lets_.insert_or_assign(let.name, let.value);
    integers[let.name] = steering_.contains(let.name) ? value(let.value) : std::nullopt;
  }
  void walk(const View& view) {
    if (const auto base = places_.find(view.base); base != places_.end() && steering_.contains(view.name))
      places_[view.name] = {base->second.table, base->second.offset + known(view.offset)};
  }
  void walk(const Aligned& aligned) { integers[aligned.name] = 1; }
  void walk(const Allocate& array) {
    if (array.memory != Memory::Register) return;
    registers_.insert(array.name);
    for (std::int64_t element = 0; element < array.count; ++element) leave({array.name, element}, &Steps::idle);
  }
  void walk(const Store& store) {
    std::set<Cell> read;
    cells(store.value, read);
    if (!registers_.contains(store.view)) return take(read);
    const Cell target{store.view, known(store.offset)};
    if (read.contains(target)) {
      ++pending_[target];
    } else {
      leave(target, &Steps::idle);
      moved_[target] = read;
    }
    if (!steering_.contains(store.view)) return;
    if (read.contains(target)) throw std::runtime_error("`" + store.view + "` counts and steers");
    cells_[target] = value(store.value);
  }
  void walk(const Fold& fold) {
    std::set<Cell> read;
    cells(fold.value, read);
    take(read);
  }
  void walk(const CallStmt& call) {
    for (const Function& callee : loops_.functions) {
      if (callee.name != call.function) continue;
      Walk inner(loops_, callee);
      for (std::size_t k = 0; k < callee.integers.size(); ++k)
        inner.integers[callee.integers[k]] = value(call.integers[k]);
      for (std::size_t k = 0; k < callee.views.size(); ++k)
        if (const auto found = places_.find(call.views[k]); found != places_.end())
          inner.place(callee.views[k].name, found->second);
      const Steps steps = inner.run(callee.body);
      done_.steps += steps.steps;
      pending_[{call.function, 0}] += steps.idle;
      return;
    }
    throw std::runtime_error("no function `" + call.function + "`");
  }
  void walk(const Barrier&) {}
  void walk(const Prefetch&) {}
  void walk(const Transpose& square) { take_all(square.name); }
  void walk(const Copy&) {}
  void walk(const Commit&) {}
  void walk(const Fragment&) {}
  void walk(const Pack&) {}
  void walk(const Exchange&) {}
  void walk(const StorePacked&) {}
  void walk(const Multiply&) {}
  void walk(const MultiplyShared&) {}
  void walk(const Await&) {}
  void walk(const Interleave& strip) { take_all(strip.name); }
  void walk(const FoldRows& rows) { take_all(rows.name); }

  void take_all(const std::string& array) {
    for (const auto& [cell, from] : moved_) if (cell.first == array) take(from);
  }

  void take(const std::set<Cell>& read) {
    for (const Cell& cell : read) {
      leave(cell, &Steps::steps);
      if (const auto from = moved_.find(cell); from != moved_.end()) take(std::set<Cell>(from->second));
    }
  }
  // What was counted in a register is settled: stored, or idle where the register begins anew.
  void leave(Cell cell, std::int64_t Steps::*member) {
    left_.try_emplace(cell, member);
    if (const auto found = pending_.find(cell); found != pending_.end())
      done_.*member += found->second, pending_.erase(found);
  }

  // The register elements that a value is made of, be it through Lets.
  void cells(const Expr& expr, std::set<Cell>& found) const {
    expr.match([](const Constant&) {},
        [&](const Variable& v) {
          if (const auto let = lets_.find(v.name); let != lets_.end() && v.type != DType::I64)
            cells(let->second, found);
        },
        [&](const Load& load) {
          if (registers_.contains(load.view)) found.insert({load.view, known(load.offset)});
        },
        [&](const Operation& operation) {
          for (const Expr& e : operation.operands) cells(e, found);
        },
        [&](const Convert& convert) { cells(convert.operand, found); });
  }

  std::int64_t known(const Expr& expr) const {
    if (const auto result = value(expr)) return *result;
    throw std::runtime_error("`" + print(expr) + "` is not known without the data");
  }
  std::optional<std::int64_t> value(const Expr& expr) const {
    using Result = std::optional<std::int64_t>;
    return expr.match([](const Constant& c) -> Result { return c.integer; },
                      [&](const Variable& v) -> Result {
                        const auto found = integers.find(v.name);
                        return found == integers.end() ? std::nullopt : found->second;
                      },
                      [&](const Load& load) -> Result {
                        if (registers_.contains(load.view)) {
                          const auto cell = cells_.find({load.view, known(load.offset)});
                          return cell == cells_.end() ? std::nullopt : cell->second;
                        }
                        const auto found = places_.find(load.view);
                        const Result offset = value(load.offset);
                        if (found == places_.end() || !offset) return std::nullopt;
                        return found->second.table->values.at(static_cast<std::size_t>(found->second.offset + *offset));
                      },
                      [&](const Operation& operation) -> Result { return apply(operation); },
                      [&](const Convert& convert) -> Result { return value(convert.operand); });
  }
  std::optional<std::int64_t> apply(const Operation& operation) const {
    std::int64_t operands[3] = {0, 0, 0};
    for (std::size_t k = 0; k < operation.operands.size(); ++k) {
      if (lang::is_float(operation.operands[k].type())) return std::nullopt;
      const auto operand = value(operation.operands[k]);
      if (!operand) return std::nullopt;
      operands[k] = *operand;
    }
    const DType type = operation.operands.front().type();
    if (operation.op == Op::Select) return operands[0] != 0 ? operands[1] : operands[2];
    if (operation.type == DType::Bool && type != DType::Bool)
      return poly::compare_integers(operation.op, type, operands[0], operands[1]);
    return poly::integer_operation(operation.op, operation.type, operands[0], operands[1], operands[2]);
  }

  const Loops& loops_;
  Names steering_, registers_;
  std::map<std::string, Place> places_;                // views of tables
  std::map<std::string, Expr> lets_;
  std::map<Cell, std::optional<std::int64_t>> cells_;  // of register arrays that steer
  std::map<Cell, std::int64_t> pending_;
  std::map<Cell, std::int64_t Steps::*> left_;         // in this turn of the innermost loop, and as what the first time
  std::map<Cell, std::set<Cell>> moved_;               // of a register that took others' values: which
  Steps done_{0, 0};
};

bool has_loop(const Body& body) {
  bool found = false;
  each_statement(body, [&](const Stmt& statement) {
    found = found || std::holds_alternative<For>(statement.node) || std::holds_alternative<CallStmt>(statement.node);
  });
  return found;
}

// `lanes`: names that differ from lane to lane.
void branches(const Body& body, bool innermost, Names lanes, std::vector<std::string>& found) {
  for (const Stmt& statement : body) {
    if (const Let* let = std::get_if<Let>(&statement.node)) {
      Names used;
      mentions(let->value, used);
      for (const std::string& name : used)
        if (lanes.contains(name)) lanes.insert(let->name);
    } else if (const For* loop = std::get_if<For>(&statement.node)) {
      Names inner = lanes;
      if (loop->kind == Kind::Vector) inner.insert(loop->index);
      branches(loop->body, loop->kind != Kind::Vector && !has_loop(loop->body), inner, found);
    } else if (const If* branch = std::get_if<If>(&statement.node)) {
      Names used;
      mentions(branch->condition, used);
      bool mask = false;
      for (const std::string& name : used) mask = mask || lanes.contains(name);
      if (innermost && !mask) found.push_back(print(branch->condition));
      branches(branch->then, innermost, lanes, found);
      branches(branch->otherwise, innermost, lanes, found);
    }
  }
}

}  // namespace

Steps fold_steps(const Loops& loops) {
  Walk walk(loops, loops.functions.back());
  return walk.run(loops.functions.back().body);
}

Steps fold_steps(const Lowered& package) {
  Steps sum;
  for (const Step& step : package.steps) {
    const Steps one = fold_steps(step.loops);
    sum.steps += one.steps, sum.idle += one.idle;
  }
  return sum;
}

std::vector<std::string> innermost_branches(const Loops& loops) {
  std::vector<std::string> found;
  for (const Function& function : loops.functions) branches(function.body, false, {}, found);
  return found;
}

}  // namespace tilec::codegen
