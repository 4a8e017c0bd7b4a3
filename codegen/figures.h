// Numbers as reports show them.
//
//   grouped(378880) ⇒ 378,880   scaled(268435456, " operations") ⇒ 268 M operations   scaled(512000, "B") ⇒ 512 kB
#pragma once

#include <cstdint>
#include <string>

namespace tilec::codegen {

std::string grouped(std::int64_t value);
std::string grouped(double value);                     // rounded; from 10^15 on three digits
std::string scaled(double value, const char* unit);    // three digits and a prefix; a unit with a blank in front is a
                                                       // word

}  // namespace tilec::codegen
