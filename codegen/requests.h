// Which lines a leaf asks for before it reads or writes them: the same answers for who chooses, who predicts and who
// spells.
//
//   contract C  m m  n n  k k  block 9x3  lanes 16  ahead 4 k     step k of C asks for what step k + 4 reads of an
//                                                                 operand whose rows lie apart
//
// Why and when: docs/decisions/rows_asked_ahead.md, claimed_results.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/loops.h"
#include "codegen/nest.h"
#include "codegen/plan.h"

namespace tilec::codegen {

// Whether steps of dimension d wait for the read: it is of more than a second-level cache keeps, and what one step
// reads lies so far from what the next one does that no core fetches it by itself.
bool waits_for(const Nest& nest, const FlatAccess& read, std::size_t d, std::int64_t bytes);
// How often the leaf's blocks read the same, of as many values of each dimension: by blocks of m and by loops around
// the blocks.
double readings(
    const Nest& nest, const Compute& leaf, const FlatAccess& read, const std::vector<std::int64_t>& extents);
// Whether steps of dimension d wait for the read and ask for it: one that blocks read so often that nearly all would
// ask for what is there is left out.
bool asks_for(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::size_t d, std::int64_t bytes);
// Of the leaf's k, the last whose steps some read waits for: what the reductions inside it read, a core asks for then.
// None: no read waits.
std::optional<std::size_t> level_that_waits(const Nest& nest, const Compute& leaf);
// Whether steps of the contraction's innermost reduction go along a stream all of whose vectors are less than their
// lanes: for loads under masks a Zen 5 fetches nothing ahead, not even the next line.
bool streams_under_masks(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes);
// Whether it is such a stream and these steps ask for it, whatever else the leaf asks for.
bool asks_by_stream(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes);
// How many of the contraction's taps are loops around the blocks: all but a last one most of whose values go through
// the blocks at once.
std::size_t taps_around(const Nest& nest, const Compute& leaf);
// Whether blocks of a contraction ask for what they read in all, for no step of theirs waits.
bool asks_by_block(const Nest& nest, const Compute& leaf);
// Of a contraction whose rows (or lanes, where it gathers) go on side by side along the innermost reduction: so many
// steps of it ask for a line of each of the `count` along dimension `along` in turn, `lines` in all between two values
// of what goes ahead.
struct InTurn { std::size_t along; std::int64_t count, steps, lines; };
// Of a block of `rows` and `columns` whose reads go ahead by dimension d. None: whoever asks does so for all at once.
std::optional<InTurn> in_turn(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::size_t d,
    std::int64_t rows, std::int64_t columns, std::int64_t bytes);
// Whether blocks read along one stream for long, which a core fetches ahead by itself as far as the second cache.
bool is_stream(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes);
// Whether an access is to more elements, of so many bytes each, than a second-level cache keeps from one use to the
// next.
bool leaves_cache(const Nest& nest, const FlatAccess& access, std::int64_t bytes);
// Whether what it touches over `inner` is so little that a block asks for all of it at once.
bool reads_little(const Form& offset, const std::vector<std::pair<std::size_t, std::int64_t>>& inner);
// Offsets into the cache lines that one step reads of an operand, for a block of rows of m and columns of n (-1: none):
// the last element of each, for memory begins with a line as rarely as rows do, and then a block shares its first line
// with the one before it. `inner`: dimensions that a step runs over too, with all their values. `first`: of the rows.
std::vector<std::int64_t> lines_of_step(const Form& offset, int m, std::int64_t rows, int n, std::int64_t columns,
    std::int64_t bytes, const std::vector<std::pair<std::size_t, std::int64_t>>& inner = {}, std::int64_t first = 0);
// How many these are, by ranges of bytes: choose/ahead.cpp asks for every leaf that is weighed.
std::int64_t count_lines_of_step(const Form& offset, int m, std::int64_t rows, int n, std::int64_t columns,
    std::int64_t bytes, const std::vector<std::pair<std::size_t, std::int64_t>>& inner);
// Of a block's rows of m those that a step of dimension d reads and none of the few steps before it did: of a window,
// fewer than all.
struct RowsOfStep { std::int64_t first, count; };
RowsOfStep new_rows(const Form& offset, int m, std::int64_t rows, std::size_t d);
// The body with the requests spread over its stores to the view, reads beside claims.
Body among_stores(Body body, const std::string& view, Body requests);

}  // namespace tilec::codegen
