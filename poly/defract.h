// Makes each output index a single variable (reduce), and splits what is left into residue classes whose taps are
// constant (defract), so that each output element has one writer and no fraction, modulo or guard on integrality
// remains.
//
//   dI[2*x + k - 1: 224] = +(dO[x] * K[k])                       K has 3 elements
//     ⇒  dI_0[2*q: 224]   = +(dO[q - z] * K[2*z + 1]);                      // z = 0
//        dI[2*q + 1: 224] = +(dO[q + 1 - z] * K[2*z]) default dI_0;         // z = 0, 1
//
// In:  a bounded Program.
// Out: bounded again, and in every statement
//        - every Affine has divisor 1;
//        - output_indices(statement) says how many of the indices, the first ones, are output indices q: on the domain
//          the target's element is injective in them, and it does not mention the others (the reduction indices z);
//        - the classes of one statement follow each other, chained by `fill`, their images disjoint; the chain may
//          share one buffer.
// Not promised: that the classes reach every element. What the others hold is the fill that the chain begins with;
// where it is a number, codegen/cover.h notes it in Statement::held. Max and Min with ties First keep their tap order.
// Exact (GMP), no ILP; what does not fit 64 bits throws Overflow.
#pragma once
#include "poly/program.h"
namespace tilec::poly {
constexpr int class_limit = 64;                        // of one statement; beyond it coordinates stay triangular
Program defract(const Program& program, int limit = class_limit);
std::size_t output_indices(const Statement& statement);
}  // namespace tilec::poly
