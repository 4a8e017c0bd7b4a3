// What a statement of Loops is made of, in one order, for passes to which all statements are alike. `see` takes
//
//   declares(name)          a name that means something from here on
//   names(name)             a view, an array, a loop or a function that is meant
//   accesses(view, offset)  an element of a view
//   stores(expression)      the value of a Store
//   reads(expression)       any other expression
//   holds(body)
//   is(value)               what is neither: a number, a word
//
// of a statement that may be changed as references, so that something else can be put there.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "codegen/loops.h"

namespace tilec::codegen {

// Of what GPUs alone have.
template <class X, class See> void parts_on_cores(X& x, See&& see) {
  using T = std::remove_const_t<X>;
  if constexpr (std::is_same_v<T, Copy>) {
    see.accesses(x.to, x.at), see.accesses(x.from, x.offset), see.reads(x.there), see.is(x.count);
  } else if constexpr (std::is_same_v<T, Fragment>) {
    see.names(x.name), see.is(x.first), see.accesses(x.view, x.offset), see.is(x.transposed);
  } else if constexpr (std::is_same_v<T, Pack>) {
    see.names(x.name), see.is(x.at), see.is(x.type), see.reads(x.low), see.reads(x.high);
    see.is(x.parts), see.is(x.step);
  } else if constexpr (std::is_same_v<T, Exchange>) {
    see.names(x.name), see.is(x.at);
  } else if constexpr (std::is_same_v<T, StorePacked>) {
    see.accesses(x.view, x.offset), see.names(x.name), see.is(x.at), see.is(x.words);
  } else if constexpr (std::is_same_v<T, Multiply>) {
    see.is(x.instruction), see.names(x.c), see.is(x.at_c), see.names(x.a), see.is(x.at_a);
    see.names(x.b), see.is(x.at_b);
  } else if constexpr (std::is_same_v<T, MultiplyShared>) {
    see.is(x.instruction), see.names(x.c), see.is(x.columns);
    for (auto* matrix : {&x.a, &x.b}) see.names(matrix->view), see.is(matrix->transposed), see.is(matrix->panel);
    see.is(x.products.size()), see.is(x.begins);
    for (auto& product : x.products) see.is(product.at_c), see.reads(product.a), see.reads(product.b);
  } else if constexpr (std::is_same_v<T, Await>) {
    see.is(x.pending), see.names(x.c), see.is(x.at), see.is(x.count);
  } else {
    static_assert(std::is_same_v<T, Commit>);
  }
}

template <class S, class See> void parts(S& statement, See&& see) {
  const auto each = [](auto& list, auto what) { for (auto& one : list) what(one); };
  const auto names = [&](auto& name) { see.names(name); };
  const auto reads = [&](auto& expression) { see.reads(expression); };
  const auto look = [&](auto& x) {
    using T = std::remove_const_t<std::remove_reference_t<decltype(x)>>;
    if constexpr (std::is_same_v<T, For>) {
      see.declares(x.index), see.is(x.kind), see.reads(x.extent), see.is(x.advance.size());
      for (auto& advance : x.advance) see.names(advance.view), see.reads(advance.step);
      see.holds(x.body);
    } else if constexpr (std::is_same_v<T, If>) {
      see.reads(x.condition), see.holds(x.then), see.holds(x.otherwise);
    } else if constexpr (std::is_same_v<T, Let>) {
      see.reads(x.value), see.declares(x.name);
    } else if constexpr (std::is_same_v<T, View>) {
      see.accesses(x.base, x.offset), see.is(x.alignment), see.is(x.words), see.declares(x.name);
    } else if constexpr (std::is_same_v<T, Aligned>) {
      see.names(x.view), see.is(x.bytes), see.declares(x.name);
    } else if constexpr (std::is_same_v<T, Allocate>) {
      see.declares(x.name), see.is(x.type), see.is(x.count), see.is(x.memory);
    } else if constexpr (std::is_same_v<T, Store>) {
      see.accesses(x.view, x.offset), see.stores(x.value), see.is(x.hint);
    } else if constexpr (std::is_same_v<T, Fold>) {
      see.reads(x.value), see.names(x.over), see.is(x.how), see.is(x.among), see.declares(x.name);
    } else if constexpr (std::is_same_v<T, Barrier>) {
      see.is(x.pending);
    } else if constexpr (std::is_same_v<T, Prefetch>) {
      see.accesses(x.view, x.offset), see.is(x.to_write), see.is(x.first);
    } else if constexpr (std::is_same_v<T, Transpose>) {
      see.names(x.name);
    } else if constexpr (std::is_same_v<T, Interleave>) {
      see.names(x.name), see.is(x.apart);
    } else if constexpr (std::is_same_v<T, FoldRows>) {
      see.names(x.name), see.is(x.how), see.is(x.rows);
    } else if constexpr (std::is_same_v<T, CallStmt>) {
      see.names(x.function), see.is(x.views.size()), each(x.views, names);
      see.is(x.integers.size()), each(x.integers, reads);
    } else {
      parts_on_cores(x, see);
    }
  };
  std::visit(look, statement.node);
}

// Of an address: x + 3 ⇒ (x, 3), 3 ⇒ (0, 3), x ⇒ (x, 0). Sums are spelled with their constant last.
std::pair<Expr, std::int64_t> constant_apart(const Expr& e);

}  // namespace tilec::codegen
