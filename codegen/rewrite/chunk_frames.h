// Parts of a sum in chunks (chunks.h): their dimensions, which elements they have, and where they read what.
//
// Chunk b has the elements p = chunk * b + i of the triangle, counted upwards, and the values u = c + chunk * b + j.
// All chunks but the last make states, all but the first read one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/part.h"
#include "codegen/rewrite/chunks.h"

namespace tilec::codegen {

class ChunkFrames {
 public:
  ChunkFrames(const poly::Statement& s, const ChunkedTriangle& t, std::int64_t chunk);

  // The sum within all chunks, over the statement's indices and the chunk in front of its place.
  poly::Statement within_chunks() const;

 protected:
  // A dimension of a part: an index of the statement, or a new one.
  struct Axis {
    std::string name;
    std::int64_t extent;
    std::optional<std::size_t> old = {};
  };
  using Axes = std::vector<Axis>;
  using Indices = std::vector<std::size_t>;            // of the statement

  // In the order of the dimensions of what is read.
  Indices order_of(const std::vector<bool>& mentions) const;
  // Of the triangle's index its chunk, and the place in it if `places`.
  Axes axes_of(const Indices& order, bool places) const;
  Axes state_axes() const;
  static std::size_t place_of(const Axes& axes, const std::string& name);
  // What is within a chunk: places i and values j of it.
  Frame within_at(const Axes& axes) const;
  poly::Statement of_within(const Frame& f, poly::Statement part) const;
  // Where a tensor over `order`, of chunks and places in them, is read.
  std::vector<std::size_t> places(const poly::Statement& part, const Indices& order) const;
  Axes within_axes(const Indices& order) const;        // of all chunks

  Frame framed(const Axes& axes) const;
  // Values j of chunk a; elements i of the chunk after b. The parts have those that there are.
  Frame values_at(const Axes& axes, std::size_t a, std::size_t j) const;
  poly::Statement of_values(const Frame& f, Aggregation how, lang::DType type, std::size_t a, std::size_t j) const;
  Frame places_at(const Axes& axes) const;
  poly::Statement of_places(const Frame& f, Aggregation how, lang::DType type) const;
  // A part without a value or a target.
  poly::Statement empty(const Frame& f, Aggregation how, lang::DType type) const;
  poly::Affine from_end(std::size_t k, poly::Affine e, bool down) const;
  static poly::Range not_after(std::size_t b, std::size_t a, std::size_t count);  // chunk a is not after b

  // An expression of the statement's, with reads of its own.
  poly::Expr add(poly::Statement& part, const poly::Expr& e, const Frame& f) const;
  static poly::Expr read(
      poly::Statement& part, poly::TensorId id, lang::DType type, const std::vector<std::size_t>& indices);
  // Of levels, a tensor over what exponents mention, chunk `at`.
  poly::Expr level(poly::Statement& part, poly::TensorId levels, std::size_t at) const;

  const poly::Statement& s_;
  const ChunkedTriangle& t_;
  std::int64_t chunk_, length_, values_, count_;       // of a chunk, elements, values, chunks
  std::string of_chunk_, before_;                      // indices: the chunk of an element, of a value

 private:
  poly::Affine place_at(std::size_t b, std::int64_t later, std::size_t i, std::size_t count) const;
  poly::Affine value_at(std::size_t a, std::size_t j, std::size_t count) const;
  static void bound(poly::Statement& part, const poly::Affine& e, std::int64_t most, std::int64_t end,
      std::int64_t least = 0);
};

// The parts that are made, each in a tensor of its own, numbered from the first that the program has not.
class ChunkParts : protected ChunkFrames {
 protected:
  ChunkParts(const poly::Program& program, const poly::Statement& s, const ChunkedTriangle& t, std::int64_t chunk,
      poly::TensorId first)
      : ChunkFrames(s, t, chunk), program_(program), first_(first) {}

  // Written over its first axes.
  poly::TensorId make(poly::Statement part, const Frame& f, std::size_t rank, const std::string& suffix);
  // Written where the statement writes, which becomes the sum of all of these.
  void make_whole(poly::Statement part, const Frame& f, const std::string& suffix);
  // The same of all chunks but the first, in which it is 0, as in elements that the statement does not reach.
  void make_whole_after_first(poly::Statement part, const Frame& f, const std::string& suffix);
  Halves sum_of_wholes();

 private:
  poly::TensorId write_whole(
      poly::Statement part, const Frame& f, const std::string& suffix, std::optional<poly::TensorId> before);
  poly::TensorId next() const { return first_ + static_cast<poly::TensorId>(made_.size()); }

  const poly::Program& program_;
  poly::TensorId first_;
  std::vector<HalfSum> made_;
  std::vector<poly::TensorId> wholes_;
};

}  // namespace tilec::codegen
