// The statements of a pass over an index: which index of each is which.
//
//   Mx[i] = >(X[i, j]);  S[m] = +(exp(X[m, n] - Mx[m]))     rows i, passed over j
//     ⇒  members Mx with labels i: 0, j: 1, and S with labels m: 0, n: 1
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "codegen/online_leaf.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

using Labels = std::vector<int>;                       // 0, 1, …: rows; their number: what is passed over
inline constexpr int unlabelled = -1;                  // neither a row nor what is passed over

// A statement, as it stands in the program.
struct OnlineMember {
  std::size_t node;
  Labels indices;                                      // of the statement's
  bool root;                                           // a fold; else it is read by one
};

struct OnlineMembers {
  OnlineMembers(const Rewriting& r, int rows);

  const poly::Program& program;
  const Strides& strides;
  int over;                                            // the label of what is passed over
  std::map<TensorId, std::size_t> maker = {};          // of each tensor, its node
  std::vector<OnlineMember> all = {};
  lang::DType type = lang::DType::F32;                 // in which all but counts are computed

  const poly::Statement& statement(const OnlineMember& m) const;
  const std::string& name(const OnlineMember& m) const;
  const std::string& index_name(const OnlineMember& m, int label) const;
  OnlinePart part(const OnlineMember& m) const;
  // null: no member is there, or makes the tensor
  const OnlineMember* at(std::size_t node) const;
  const OnlineMember* made_by(TensorId id) const;
  // Whether the dimension has one element, and no index goes through it.
  bool only_one(const poly::Access& access, std::size_t d) const;
};

}  // namespace tilec::codegen
