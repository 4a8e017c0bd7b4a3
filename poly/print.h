// Prints a Program as Tile that reads back to the same Program.
#pragma once
#include <string>
#include "poly/program.h"
namespace tilec::poly {
std::string print(const Program& program);
std::string print(const Program& program, const Statement& statement);   // one statement, without newline
}  // namespace tilec::poly
