#include "codegen/reason.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "codegen/figures.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

// Directives name tensors of the Program that they were applied to: those of the plan are left of it, others stand in
// the reduced one.
class Reasons {
 public:
  Reasons(const Program& reduced, const Plan& plan) : reduced_(reduced), plan_(plan) {}

  std::string operator()(const directives::Inline& d) const {
    return fmt::format("computed where it is read: {} are neither stored nor read again", size_of(d.tensor));
  }
  std::string operator()(const directives::Absorb& d) const {
    return fmt::format("its sum becomes part of the sums that read it: {} are not stored", size_of(d.tensor));
  }
  std::string operator()(const directives::Unfold&) const {
    return "what makes its factors is written out in it: products of matrices in chunks, no scores";
  }
  std::string operator()(const directives::Restate&) const {
    return "its conditions become bounds of the sum: only points that count are visited";
  }
  std::string operator()(const directives::Reach&) const {
    return "it has an element for each value, so that ties with it are told from element to element";
  }
  std::string operator()(const directives::Gates&) const {
    return "its products over intervals are the steps of a recurrence: one for each element, not one for each pair";
  }
  std::string operator()(const directives::Logs&) const {
    return "its products over intervals are told by running sums of logarithms: a step for each element, not one for each pair";
  }
  std::string operator()(const directives::Factor& d) const {
    return fmt::format("{} summed first, since the other factors do not depend on {}{}",
        d.sums.size() == 1 ? fmt::format("{} is", d.sums.front()) : fmt::format("{} are", fmt::join(d.sums, ", ")),
        d.sums.size() == 1 ? "it" : "them", points_of(d.tensor));
  }
  std::string operator()(const directives::Chunks& d) const {
    return fmt::format(
        "chunks of {} of {} each: products of matrices within a chunk, and what lies before it by a state for each chunk",
        grouped(static_cast<double>(d.size)), d.index);
  }
  std::string operator()(const directives::Seek& d) const {
    return fmt::format("its rows are found where they are read or added up: {} are not copied", size_of(d.tensor));
  }
  std::string operator()(const directives::Online& d) const {
    return fmt::format(
        "one pass over {}: {} {} known when it ends, and what they read of each {} and {} is never in memory", d.over,
        fmt::join(d.tensors, ", "), d.tensors.size() == 1 ? "is" : "are", fmt::join(d.rows, ", "), d.over);
  }
  std::string operator()(const directives::Terms&) const {
    return "what a scan adds is computed first, side by side: from element to element there is one addition left";
  }
  std::string operator()(const directives::Blocks& d) const {
    return fmt::format("blocks of {} are scanned side by side, then the sums of the blocks before are added",
        grouped(static_cast<double>(d.size)));
  }
  std::string operator()(const directives::Windows&) const {
    return "a window is the end of a block and the beginning of the next, and both are scans: three operations for each element";
  }
  std::string operator()(const directives::Split& d) const {
    return fmt::format("a long fold for few elements{}: parts of {} of {} are folded side by side, then the parts",
        points_of(d.tensor), grouped(static_cast<double>(d.size)), d.index);
  }
  std::string operator()(const directives::Pairs& d) const {
    return fmt::format(
        "{} summed for each pair of elements once: a product of matrices without windows or borders, of which {} then adds up some",
        d.sums.size() == 1 ? fmt::format("{} is", d.sums.front()) : fmt::format("{} are", fmt::join(d.sums, ", ")),
        d.tensor);
  }
  std::string operator()(const directives::Center& d) const {
    return fmt::format("its squares are those of distances to the first value of each part, which need not wait for {}", d.sum);
  }
  std::string operator()(const directives::Copy& d) const {
    if (d.bits)
      return fmt::format("{} are rounded to {} bits once, and lie along what {} sums, as tensor cores take them{}",
          size_of(d.operand), d.bits, d.reader, reads_of(d.operand, d.reader));
    if (d.rows)
      return fmt::format("{} are copied once to rows that begin at multiples of {} elements, which {} copies together{}",
          size_of(d.operand), d.rows, d.reader, reads_of(d.operand, d.reader));
    return fmt::format("{} are reordered once; {} then finds side by side what its lanes and blocks read{}",
        size_of(d.operand), d.reader, reads_of(d.operand, d.reader));
  }
  std::string operator()(const directives::Stage& d) const {
    return fmt::format("lanes write side by side; {} are put in order afterwards", size_of(d.tensor));
  }
  std::string operator()(const directives::Tile& d) const {
    std::vector<std::string> box;
    for (std::size_t k = 0; k < d.over.size(); ++k) box.push_back(fmt::format("{} {}", d.by[k], d.over[k]));
    return fmt::format(
        "a box of {} at a time stays in cache, with copies of its own: each line is read and written while its neighbours are",
        fmt::join(box, ", "));
  }
  std::string operator()(const directives::Panels& d) const {
    return fmt::format("{} are laid in panels of {} of {}, each of which a block reads from end to end",
        size_of(d.operand), d.width, d.index);
  }
  std::string operator()(const directives::Finish& d) const {
    return fmt::format("one launch: the threads that have the sums of {} compute {} of them before they write",
        d.tensors.front(), fmt::join(d.tensors.begin() + 1, d.tensors.end(), ", "));
  }
  std::string operator()(const directives::Share& d) const {
    if (d.rows.empty())
      return fmt::format("one launch, of one block: {} are too little for more", fmt::join(d.tensors, ", "));
    return fmt::format("one launch: a turn computes some {} of {}, and finds in cache what it has just written",
        d.rows.size() == 1 ? d.rows.front() : fmt::format("{}", fmt::join(d.rows, ", ")), fmt::join(d.tensors, ", "));
  }

  std::string operator()(const directives::Rest& d) const {
    return fmt::format("what nothing else writes of {} has statements of its own: no fill writes all of it first", d.tensor);
  }

 private:
  // Of the tensor as a whole.
  std::string size_of(const std::string& name) const {
    for (const Program* program : {&plan_.program, &reduced_})
      for (std::size_t id = 0; id < program->tensors.size(); ++id)
        if (program->tensors[id].name == name)
          return scaled(elements(*program, static_cast<TensorId>(id)) *
                  static_cast<double>(lang::bytes(program->tensors[id].dtype)),
              "B");
    return "its elements";
  }

  const Statement* computing(const Program& program, const std::string& tensor) const {
    const auto at = statement_of(program, tensor);
    return at ? std::get_if<Statement>(&program.nodes[*at]) : nullptr;
  }

  std::string points_of(const std::string& tensor) const {
    const Statement* s = computing(reduced_, tensor);
    return s == nullptr ? ""
                        : fmt::format(" ({} points for {} elements)", grouped(points(*s)),
                              grouped(elements(reduced_, s->target.tensor)));
  }

  std::string reads_of(const std::string& operand, const std::string& reader) const {
    const Statement* s = computing(plan_.program, reader);
    if (s == nullptr) return "";
    for (std::size_t id = 0; id < plan_.program.tensors.size(); ++id)
      if (plan_.program.tensors[id].name == operand)
        return fmt::format(": it reads each element about {} times",
            grouped(std::max(
                1.0, std::round(points(*s) / std::max(1.0, elements(plan_.program, static_cast<TensorId>(id)))))));
    return "";
  }

  const Program& reduced_;
  const Plan& plan_;
};

}  // namespace

std::string reason(const Directive& directive, const Program& reduced, const Plan& plan) {
  return std::visit(Reasons(reduced, plan), directive);
}

}  // namespace tilec::codegen
