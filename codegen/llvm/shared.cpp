#include "codegen/llvm/shared.h"

#include <fmt/format.h>
#include <llvm/IR/Module.h>

#include <vector>

namespace tilec::codegen::llvm_backend {

using llvm::Value;

namespace {

constexpr int long_function = 4000;                    // instructions

// Lanes are divided one by one.
int weight(const llvm::Instruction& instruction) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(instruction.getType());
  return vector && instruction.isIntDivRem() ? static_cast<int>(4 * vector->getNumElements()) : 1;
}

bool is_long(const llvm::Function& function) {
  int count = 0;
  for (const llvm::BasicBlock& block : function)
    for (const llvm::Instruction& instruction : block) {
      count += weight(instruction);
      if (count > long_function) return true;
    }
  return false;
}

// With the attributes of the function that calls it.
llvm::Function* shared(Builder& b, std::string_view operation, std::span<Value* const> operands, Spelling spell) {
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  const std::vector<llvm::Type*> types(operands.size(), operands[0]->getType());
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(types[0]);
  const std::string name = fmt::format("tilec.{}.{}{}x{}", operation, types[0]->isIntOrIntVectorTy() ? "i" : "f",
      types[0]->getScalarSizeInBits(), vector ? vector->getNumElements() : 1);
  if (llvm::Function* made = caller->getParent()->getFunction(name)) return made;
  auto* function = llvm::Function::Create(
      llvm::FunctionType::get(types[0], types, false), llvm::Function::InternalLinkage, name, caller->getParent());
  function->setAttributes(function->getAttributes().addFnAttributes(
      b.getContext(), llvm::AttrBuilder(b.getContext(), caller->getAttributes().getFnAttrs())));
  function->addFnAttr(llvm::Attribute::NoInline);
  Builder inside(llvm::BasicBlock::Create(b.getContext(), "", function));
  std::vector<Value*> arguments;
  for (llvm::Argument& argument : function->args()) arguments.push_back(&argument);
  inside.CreateRet(spell(inside, arguments));
  return function;
}

}  // namespace

Value* spelled_or_called(Builder& b, std::string_view name, std::span<Value* const> operands, Spelling spell) {
  if (!is_long(*b.GetInsertBlock()->getParent())) return spell(b, operands);
  return b.CreateCall(shared(b, name, operands, spell), llvm::ArrayRef(operands.data(), operands.size()));
}

}  // namespace tilec::codegen::llvm_backend
