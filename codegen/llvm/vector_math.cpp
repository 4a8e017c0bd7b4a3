#include "codegen/llvm/vector_math.h"

#include <llvm/IR/Module.h>

#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

using llvm::Type;
using llvm::Value;

namespace {

const char* libm_name(Op op) {
  switch (op) {
    case Op::Pow: return "pow";
    case Op::Mod: return "fmod";
    case Op::Exp: return "exp";
    case Op::Log: return "log";
    case Op::Erf: return "erf";
    case Op::Sin: return "sin";
    case Op::Cos: return "cos";
    case Op::Tan: return "tan";
    case Op::Asin: return "asin";
    case Op::Acos: return "acos";
    case Op::Atan: return "atan";
    case Op::Sinh: return "sinh";
    case Op::Cosh: return "cosh";
    case Op::Tanh: return "tanh";
    case Op::Asinh: return "asinh";
    case Op::Acosh: return "acosh";
    case Op::Atanh: return "atanh";
    case Op::Atan2: return "atan2";
    default: throw lang::InternalError("LLVM emitter: no function `" + std::string(lang::info(op).name) + "`");
  }
}

// One call per lane.
Value* libm(Builder& b, Op op, std::span<Value* const> v) {
  Type* element = v[0]->getType()->getScalarType();
  llvm::Module* module = b.GetInsertBlock()->getModule();
  const std::string name = std::string(libm_name(op)) + (element->isFloatTy() ? "f" : "");
  auto callee = module->getOrInsertFunction(name, llvm::FunctionType::get(element, std::vector<Type*>(v.size(), element), false));
  llvm::cast<llvm::Function>(callee.getCallee())->addFnAttr(llvm::Attribute::NoUnwind);
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v[0]->getType());
  if (!type) return b.CreateCall(callee, std::vector<Value*>(v.begin(), v.end()));
  Value* result = llvm::PoisonValue::get(v[0]->getType());
  for (std::uint64_t lane = 0; lane < type->getNumElements(); ++lane) {
    std::vector<Value*> arguments;
    for (Value* x : v) arguments.push_back(b.CreateExtractElement(x, lane));
    result = b.CreateInsertElement(result, b.CreateCall(callee, arguments), lane);
  }
  return result;
}

}  // namespace

Value* vector_math(Builder& b, Op op, std::span<Value* const> v) { return libm(b, op, v); }

}  // namespace tilec::codegen::llvm_backend
