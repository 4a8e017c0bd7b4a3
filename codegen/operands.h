// Copies of operands whose elements lie badly for the lanes that read them, where they are read often enough to pay.
//
//   C[i, j] = +(A[i, k] * B[j, k])   ⇒   B_t[k, j] = =(B[j, k]);  C[i, j] = +(A[i, k] * B_t[k, j]);
//   C[i, j] = +(A[i, k] * B[k, j])   ⇒   B_p[b, k, l] = =(B[k, 64*b + l]);  C[i, 64*b + l] = +(A[i, k] * B_p[b, k, l]);
#pragma once
#include <span>
#include "codegen/choose/layout.h"
#include "codegen/rewrite/rewriting.h"
namespace tilec::codegen {
// Copies that lanes, or rows of a block, need wherever they are read often enough.
Layouts copies_for_lanes(const poly::Program& program, const Strides& strides, const poly::Statement& s);
// Copies and boxes of every statement, as the model says is best for each.
void copy_operands(Rewriting& r);
// Statements that do not read each other, and the tensors that they name, as a Program: its elements that no point
// reaches are 0.
Rewriting alone(const Rewriting& r, std::span<const poly::Statement> statements);
// Milliseconds, near those of the program's arithmetic or of its inputs and outputs: below, nothing better is looked
// for.
double enough_for(const Rewriting& r);
// Every row of a wide operand stands on a page of its own when its stride is a multiple of the page, and an operand
// beyond the cache is streamed again for every block of rows: both end when it lies in panels as wide as a block.
void panel_operands(Rewriting& r);
}  // namespace tilec::codegen
