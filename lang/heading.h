// Calls of functions of std/ as libraries of Python have them: arguments by name, axes as numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::lang {

using RankOf = std::function<std::optional<std::size_t>(const std::string& name)>;

// `f<S=1, P=0>(X[N], K[M]) -> (O)` with X, K and stride=2
//   ⇒  `<S=2>(X, K)`. Nothing where an argument finds no place or has another
// number of dimensions, or where all stand in their places already.
std::optional<std::string> called_as(std::string_view heading, std::vector<std::string> plain,
    std::map<std::string, std::string> named, const RankOf& rank);

// What moves elements along one axis of a tensor, `roll` by a shift: `cat` of matrices along axis 1
//   ⇒  `concat<1>`. Axes count from the end where they are negative; nothing where there is no such axis.
std::optional<std::string> moving(
    std::string_view foreign, std::size_t rank, std::int64_t axis, const std::string& shift);

}  // namespace tilec::lang
