// NAME=VALUE words of `tilec run` as tensors: files, inline values, random and counted ones, plain numbers.
//
//   A=2x3xf32=[1 2 3][4 5 6]   ⇒   a 2 by 3 tensor          A=random:2x3xf32   uniform in [-1, 1), integers in [-8, 8)
//   S=0.5                      ⇒   a weak scalar             A=file.npz:weight  one member of an archive
//   I=random:8xi32:0..9        ⇒   8 integers from 0 to 8
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/type.h"
#include "poly/interpret.h"
#include "runtime/specialise.h"

namespace tilec::cli {

// Seed of random values; where relative paths begin, empty or with its `/`; what receives the paths of files that are
// read.
struct Reading { std::uint64_t seed = 0; std::string folder = {}; std::vector<std::string>* files = nullptr; };

// `x.npz` and `x.npz:member` name an archive; `runs.npz.d/x.npy` does not.
struct ArchivePath { std::string file, member; };
std::optional<ArchivePath> archive_path(const std::string& value);

bool is_beyond_64_bits(std::string_view value);        // of a number: an integer that 64 bits do not hold, or more than
                                                       // any f64

// `declared`: the type in the signature; a file of another type is converted, and it is what an inline value defaults
// to.
runtime::Argument parse_argument(
    const std::string& name, const std::string& value, std::optional<lang::DType> declared, const Reading& reading);

// The type that a value's own text names: `2x3xf32=[…]`, `random:2x3xf32`.
std::optional<lang::DType> written_type(std::string_view value);
bool is_form(std::string_view text);                   // `2x3xf32`, `2x3`, `f32`, but not the number `3`
struct Form { std::vector<std::int64_t> shape; std::optional<lang::DType> dtype; };
std::optional<Form> parse_form(std::string_view text);  // takes `3` for a shape

// The usual range; seeded by name, so that another argument changes nothing.
void fill_random(const runtime::Tensor& tensor, std::string_view name, std::uint64_t seed);

// `2x3xf32=[1 2 3][4 5 6]`, with all digits that tell one value of the type from the next; `1.5` for a scalar.
std::string print_value(const poly::Array& array);
std::string print_element(const poly::Array& array, std::size_t n);

// `O: 2x3 f32`, and the elements of a tensor small enough to read.
std::string summary(const std::string& name, const runtime::Tensor& tensor);

}  // namespace tilec::cli
