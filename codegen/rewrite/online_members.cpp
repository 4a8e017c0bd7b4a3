#include "codegen/rewrite/online_members.h"

#include <algorithm>
#include <variant>

#include "autodiff/graph.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

OnlineMembers::OnlineMembers(const Rewriting& r, int rows) : program(r.program), strides(r.strides), over(rows) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    for (const TensorId id : autodiff::targets(program.nodes[n])) maker.emplace(id, n);
}

const poly::Statement& OnlineMembers::statement(const OnlineMember& m) const {
  return std::get<poly::Statement>(program.nodes[m.node]);
}

const std::string& OnlineMembers::name(const OnlineMember& m) const { return target_name(program, statement(m)); }

const std::string& OnlineMembers::index_name(const OnlineMember& m, int label) const {
  return statement(m).indices[static_cast<std::size_t>(std::ranges::find(m.indices, label) - m.indices.begin())];
}

OnlinePart OnlineMembers::part(const OnlineMember& m) const {
  return std::get<OnlinePart>(
      online_part(online_nest(statement(m), strides), index_name(m, over - 1), index_name(m, over)));
}

const OnlineMember* OnlineMembers::at(std::size_t node) const {
  const auto found = std::ranges::find(all, node, &OnlineMember::node);
  return found == all.end() ? nullptr : &*found;
}

const OnlineMember* OnlineMembers::made_by(TensorId id) const {
  const auto found = maker.find(id);
  return found == maker.end() ? nullptr : at(found->second);
}

bool OnlineMembers::only_one(const poly::Access& access, std::size_t d) const {
  return extents(program.tensor(access.tensor))[d] == 1 &&
      std::ranges::all_of(access.element[d].coefficients, [](const poly::Size& c) { return c.is(0); });
}

}  // namespace tilec::codegen
