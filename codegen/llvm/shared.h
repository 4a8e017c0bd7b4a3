// An operator that takes many instructions is spelled where it stands; in a long function it becomes a function of the
// module, called.
//
//   %q = 40 instructions that divide 8 i64   ⇒   %q = call <8 x i64> @tilec.div.s64x8(%x, %y)
//
// LLVM's register allocator takes the square of a function's length: 500 sines one after the other took it half a
// minute.
#pragma once

#include <span>
#include <string_view>

#include "codegen/llvm/arith.h"

namespace tilec::codegen::llvm_backend {

using Spelling = llvm::function_ref<llvm::Value*(Builder&, std::span<llvm::Value* const>)>;

// `name` names what `spell` makes of operands of these types: one name, one meaning.
llvm::Value* spelled_or_called(
    Builder& b, std::string_view name, std::span<llvm::Value* const> operands, Spelling spell);

}  // namespace tilec::codegen::llvm_backend
