// A Package as bytes, to keep and to ship.
//
//   "tilec package 4\n", bytes of what follows (u64), its CRC-32 (u32), then the fields of codegen/package.h in order
//
// Numbers are little-endian, texts and lists are counted. The same package gives the same bytes, and these give the
// same package.
#pragma once

#include <string>
#include <string_view>

#include "codegen/package.h"

namespace tilec::runtime {

std::string to_bytes(const codegen::Package& package);

bool is_package(std::string_view bytes);               // begins like one
// RuntimeError E0534 names `path` and says what is wrong: no package, another version, cut off, changed.
codegen::Package package_from(std::string_view bytes, const std::string& path);

}  // namespace tilec::runtime
