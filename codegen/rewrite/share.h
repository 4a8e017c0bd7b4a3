// Statements that share rows: which index of each runs over them, and what becomes of sums over them.
//
//   share S E Y  rows i          S[i], E[i, j], Y[i, j] read each other at their own i: one launch by i
//   share Mx E  rows j           Mx[j], E[i, j]: by j, which is E's index because E reads Mx[j]
//   share dX dG  rows i  parts 188
//     dX[i, j] = =(…X[i, j]…);  dG[j] = +(…X[i, j]…)      by i, which dG sums over: it is the index of X that is dX's i
//       ⇒  dG_parts[s, j] = +(…X[i, j]…), 0 <= i - 188 s < 188, in the launch;  dG[j] = +(dG_parts[s, j]) behind it
//
// Keeps: every value, up to how sums associate.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/choose/traffic.h"
#include "codegen/fuse.h"
#include "codegen/rewrite/rewriting.h"
#include "codegen/rewrite/split.h"

namespace tilec::codegen {

// A dimension of a target that is an index of its own over the whole extent.
struct Lead { std::size_t dim, index; };
using Leads = std::vector<Lead>;
// The target's first such dimensions, of a map up to one in groups, `D*g + d`, whose row is g; where there is one
// element only, none.
Leads leads_of(const poly::Program& program, const poly::Statement& s);
// All of them.
Leads open_leads(const poly::Program& program, const poly::Statement& s);

// Per row of the members, the index of `s` that runs over it: both access one tensor, and it stands where the row's
// index stands. None where there is no such index, or where `s` reads other rows of what a member makes.
std::vector<std::optional<std::size_t>> aligned(const std::vector<Member>& members, const poly::Statement& s);
// Whether it is a sum that may be taken in parts beside other statements.
bool sums_in_parts(const poly::Program& program, const poly::Statement& s);

// A set with its indices as loops, or why its statements cannot run row by row.
struct Shared {
  Fused::Set set;
  std::vector<bool> sums;                              // per statement: one over the set's rows
};
std::variant<Shared, std::string> shared(const Rewriting& r, const directives::Share& directive);
// Whether something between the statements is waited for by one of them.
Refusal out_of_order(const poly::Program& program, const std::vector<int>& nodes);

// Bytes of shared memory that what stays in a turn may take, on a GPU.
double shared_for_rows(const Target& target);

// Whether it reads there what belongs to its row: the first indices of its target.
bool reads_at_row(const poly::Statement& s, const poly::Access& read);

// Sums become parts where they stand; what adds these up belongs behind the set. On a GPU that is two statements a sum
// where its parts are many.
std::vector<poly::Statement> divide(Rewriting& r, const Shared& shared);
std::optional<Cut> cut_of_parts(const Rewriting& r, const poly::Statement& sum);
void rename_rows(poly::Program& program, const Fused::Set& set);
void note(Rewriting& r, const Fused::Set& set);        // the directive, before its sums are divided

}  // namespace tilec::codegen
