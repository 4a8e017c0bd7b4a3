// Every message of the compiler, declared once with the types of its arguments.
//
// One section per folder; add a message at the end of your own section and a page docs/errors/CODE.md. Codes:
//   E01xx W01xx R01xx  lang       E02xx W02xx R02xx  poly       E03xx W03xx R03xx  autodiff
//   E04xx W04xx R04xx  codegen    E05xx W05xx R05xx  runtime and command line
// Style: lower case, no full stop, code in backticks; say what was seen, never "invalid", "illegal" or "unexpected" alone.
//
//   diagnostics.report(access.span, messages::rank_mismatch, name, rank, count).label(tensor.span, "declared here");
#pragma once

#include <cstdint>
#include <string_view>

#include "lang/diagnostic.h"

namespace tilec::lang::messages {

using Text = std::string_view;

// ---- lang: parsing --------------------------------------------------------------------------------------------------------------

// ---- lang: checking -------------------------------------------------------------------------------------------------------------

// ---- poly -----------------------------------------------------------------------------------------------------------------------

// bounds: E0240 to E0249
inline constexpr Message<Text, Text> unbounded_index{"E0240", Severity::Error, "index `{}` has no {} bound: no access and no constraint limits it"};
inline constexpr Message<Text, Text, Text, Text> colliding_assign{"E0241", Severity::Error, "`=` writes `{}` twice: at {} and at {}, both `{}`"};
inline constexpr Message<Text> undecided_assign{"E0242", Severity::Error, "cannot prove that `=` writes each element of `{}` once: the domain is too large to enumerate"};
inline constexpr Message<Text, Text, Text, Text> leaves_tensor{"R0240", Severity::Remark, "`{}` leaves `{}` at {}: elements of `{}` that only such points reach hold the fill"};

// ---- autodiff -------------------------------------------------------------------------------------------------------------------

// ---- codegen --------------------------------------------------------------------------------------------------------------------

// ---- runtime and command line ---------------------------------------------------------------------------------------------------
inline constexpr Message<Text, Text> unreadable{"E0501", Severity::Error, "`{}` cannot be read: {}"};
inline constexpr Message<Text, Text> unwritable{"E0502", Severity::Error, "`{}` cannot be written: {}"};
inline constexpr Message<Text, Text> not_npy{"E0503", Severity::Error, "`{}` is not a NumPy file: {}"};
inline constexpr Message<Text, std::int64_t, std::int64_t> truncated{"E0504", Severity::Error, "`{}` ends early: its header promises {} bytes of elements, {} are there"};
inline constexpr Message<Text, Text> foreign_dtype{"E0505", Severity::Error, "`{}` holds elements of NumPy type `{}`, which Tile does not have"};
inline constexpr Message<Text, Text> bad_archive{"E0506", Severity::Error, "`{}` is not a .npz archive that can be read: {}"};
inline constexpr Message<Text, Text> no_member{"E0507", Severity::Error, "`{}` holds no array called `{}`"};
inline constexpr Message<Text, Text> bad_header{"E0508", Severity::Error, "the header of `{}` cannot be understood: {}"};
inline constexpr Message<Text, Text> bad_value{"E0509", Severity::Error, "the value of `{}` cannot be read: {}"};
inline constexpr Message<Text> missing_input{"E0510", Severity::Error, "input `{}` has no value"};
inline constexpr Message<Text, Text> unknown_argument{"E0511", Severity::Error, "`{}` is neither an input nor an output of `{}`"};
inline constexpr Message<Text, std::int64_t> out_of_memory{"E0512", Severity::Error, "no memory for `{}`: {} bytes"};
inline constexpr Message<Text, Text> too_large{"E0513", Severity::Error, "`{}` of {} elements has more bytes than 63 bits count"};
inline constexpr Message<Text> unknown_target{"E0514", Severity::Error, "`{}` is no target"};
inline constexpr Message<Text> target_not_built{"E0515", Severity::Error, "this tilec was built without the `{}` target"};
inline constexpr Message<Text, Text, Text> wrong_type{"E0516", Severity::Error, "`{}` is declared `{}` but is given `{}`"};
inline constexpr Message<Text, Text, Text> wrong_shape{"E0517", Severity::Error, "`{}` is {} but is given {}"};
inline constexpr Message<Text, Text> wrong_device{"E0518", Severity::Error, "`{}` lies in {} memory, where this program cannot reach it"};
inline constexpr Message<Text, Text> stage_needs_sizes{"E0519", Severity::Error, "stage `{}` needs numbers for {}"};
inline constexpr Message<Text, Text> unknown_stage{"E0530", Severity::Error, "`{}` is no stage{}"};
inline constexpr Message<Text, Text> foreign_output{"E0531", Severity::Error, "`{}` holds type `{}`, which the file format does not have"};
inline constexpr Message<Text> not_a_number{"E0532", Severity::Error, "`{}` is used as a size and takes an integer"};
// devices
inline constexpr Message<Text, Text> no_device{"E0520", Severity::Error, "target `{}` has no device here: {}"};
inline constexpr Message<Text, Text, Text> device_compile{"E0521", Severity::Error, "the compiler of {} refused the text that was emitted for it, saved as `{}`:\n{}"};
inline constexpr Message<Text, Text, Text> device_call{"E0522", Severity::Error, "`{}` of {} failed: {}"};
inline constexpr Message<std::int64_t, Text> device_memory{"E0523", Severity::Error, "no room for {} bytes in the memory of {}"};
inline constexpr Message<Text> no_nvrtc{"E0524", Severity::Error, "CUDA text cannot be compiled here: {}"};
inline constexpr Message<Text, Text> unsupported_on_device{"E0525", Severity::Error, "{} does not have {}, which this program needs"};

}  // namespace tilec::lang::messages
