// The words of a plan's stages.
//
//   no factor                           of the stage of sums nothing is done
//   inline; absorb, restate, …; share   the order in which directives stand, stages apart by semicolons
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "codegen/rewrite/directive.h"

namespace tilec::codegen {

struct StageWord {
  RewriteStage stage;
  std::string_view word;                               // of one of its directives, by which plans that are printed name
                                                       // it
};
inline constexpr StageWord stage_words[] = {{RewriteStage::Inline, "inline"}, {RewriteStage::Sums, "factor"},
    {RewriteStage::Seeks, "seek"}, {RewriteStage::Online, "online"}, {RewriteStage::Scans, "blocks"},
    {RewriteStage::Pairs, "pairs"}, {RewriteStage::Splits, "split"},
    {RewriteStage::Copies, "copy"}, {RewriteStage::Panels, "panels"},
    {RewriteStage::Finishes, "finish"}, {RewriteStage::Rows, "share"},
    {RewriteStage::Rests, "rest"}};
static_assert(std::size(stage_words) == static_cast<std::size_t>(RewriteStage::Rests) + 1);

std::string order_of_directives();

}  // namespace tilec::codegen
