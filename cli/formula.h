// What a bound Program is in the words of a peer, as lines of Python over its inputs.
//
//   C[i, j] = +(A[i, k] * B[k, j])          numpy   C = numpy.einsum('ac,cb->ab', A, B, optimize=True)
//   O[n, y, x, o] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c, o])
//     torch   K0 = K.permute(3, 2, 0, 1).contiguous()          once, before the clock runs
//             O = torch.nn.functional.conv2d(I.permute(0, 3, 1, 2), K0, …).permute(0, 2, 3, 1)
//
// Products of tensors over whole dimensions, and convolutions where the peer has them. Nothing else is said: how a peer
// would best write it, is not known here.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "poly/program.h"

namespace tilec::cli {

enum class PeerKind { Numpy, Torch, Jax };

struct Formula {
  using Line = std::pair<std::string, std::string>;    // a name of Python and its value
  std::vector<Line> once, lines;
  std::vector<std::string> results;                    // names, per output
};

std::string python_name(const std::string& tensor);    // `#a` ⇒ `a`

struct NoFormula { std::string tensor, why; };         // of the first statement without a formula
std::variant<Formula, NoFormula> formula_of(const poly::Program& program, PeerKind peer);

}  // namespace tilec::cli
