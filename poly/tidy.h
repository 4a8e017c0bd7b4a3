// A statement without what it says twice: of hundreds of reads and rows, each is looked for among those with its hash.
//
//   A[i] * B[j] + A[i], reads A[i], B[j], C[j], A[i]; rows 0 <= i < N, 0 <= i < N  ⇒  reads A[i], B[j]; rows 0 <= i < N
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "poly/program.h"

namespace tilec::poly {

// Equal for what is equal; different tensors, indices and offsets mostly differ.
std::size_t hash_of(const Affine& form);
std::size_t hash_of(const Access& access);
std::size_t hash_of(const Range& row);

// Different values in order of first appearance.
template <class T> class Distinct {
 public:
  std::size_t place_of(const T& value) {
    std::vector<std::size_t>& places = by_hash_[hash_of(value)];
    for (const std::size_t k : places)
      if (all_[k] == value) return k;
    places.push_back(all_.size());
    all_.push_back(value);
    return places.back();
  }
  std::vector<T> take() { return std::move(all_); }

 private:
  std::vector<T> all_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash_;
};

// Drops reads that the value does not mention and merges equal ones, in order of first appearance.
void tidy_reads(Statement& statement);

}  // namespace tilec::poly
