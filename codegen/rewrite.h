// Facts about statements, and small pieces of them: what the rewrites of fuse.cpp share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/nest.h"
#include "poly/program.h"

namespace tilec::codegen {

// A tensor name no tensor of the program has yet.
std::string fresh_name(const poly::Program& program, const std::string& stem);
std::vector<std::size_t> in_order(std::size_t rank);   // 0, 1, 2, …
// target[o] = source[o with its dimensions in the order `order`].
poly::Statement copy(
    const poly::Program& program, TensorId target, TensorId source, const std::vector<std::size_t>& order);

std::optional<std::size_t> plain_index(const poly::Affine& e);
// Element 0 of a dimension that has no other.
bool only_element(const poly::Affine& e, const poly::Size& extent);
// Each target dimension is an index of its own that runs over the whole extent, and nothing else restricts the outputs:
// every element is written.
bool covers(const poly::Program& program, const poly::Statement& s);
bool reduces(const poly::Statement& s);
bool elementwise(const poly::Program& program, const poly::Statement& s);
// A reduction some operand of which does not depend on some output index: blocks of m and n pay.
bool reuses(const poly::Statement& s);
// 0 <= whole - size * part < size, of indices that start at 0: each value of `whole` has one of `part`.
struct Tie { std::size_t whole, part; std::int64_t size; };
std::vector<Tie> ties(const poly::Statement& s);
// One that reads its largest operand over and over: else it streams through it once.
bool contracts(const poly::Program& program, const poly::Statement& s);
double points(const poly::Statement& s);               // of the box; of a scan, what is computed
double elements(const poly::Program& program, TensorId id);
double bytes_of(const poly::Program& program, TensorId id);
bool is_output(const poly::Program& program, TensorId id);
// the statement that computes a tensor; null: none does
const poly::Statement* maker(const poly::Program& program, TensorId id);
bool reads(const poly::Node& node, TensorId id);       // as an operand or a fill
int weight(const poly::Expr& e);                       // cycles, roughly
double cycles(const poly::Statement& s);               // of all its points on one core, more roughly
int nodes(const poly::Expr& e);

// `e` over other indices: index k is map[k], read r is read_at[r].
poly::Expr seen_from(
    const poly::Expr& e, const std::vector<poly::Affine>& map, std::size_t count, const std::vector<int>& read_at);

}  // namespace tilec::codegen
