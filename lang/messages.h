// Every message of the compiler, declared once with the types of its arguments.
//
// One section per folder; add a message at the end of your own section and a page docs/errors/CODE.md. Codes:
//   E01xx W01xx R01xx  lang       E02xx W02xx R02xx  poly       E03xx W03xx R03xx  autodiff
//   E04xx W04xx R04xx  codegen    E05xx W05xx R05xx  runtime and command line
// Style: lower case, no full stop, code in backticks; say what was seen, never "invalid", "illegal" or "unexpected"
//        alone.
//
//   diagnostics.report(access.span, messages::rank_mismatch, name, rank, count).label(tensor.span, "declared here");
#pragma once

#include <cstdint>
#include <string_view>

#include "lang/diagnostic.h"

namespace tilec::lang::messages {

using Text = std::string_view;

// ---- lang: parsing --------------------------------------------------------------------------------------------------

inline constexpr Message<Text, Text> syntax{"E0101", Severity::Error, "expected {}, saw {}"};
inline constexpr Message<Text> unknown_character{
    "E0102", Severity::Error, "{} is not a character of Tile outside comments and strings"};
inline constexpr Message<> unclosed_comment{"E0103", Severity::Error, "this comment is never closed"};
inline constexpr Message<> unclosed_string{"E0104", Severity::Error, "this string is not closed on its line"};
inline constexpr Message<Text> malformed_number{"E0105", Severity::Error, "`{}` is not a number"};
inline constexpr Message<Text> integer_too_large{"E0106", Severity::Error, "`{}` does not fit 64 bits"};
inline constexpr Message<int, Text> too_deep{"E0107", Severity::Error, "nested more than {} {} deep"};
inline constexpr Message<Text> chained_comparison{
    "E0108", Severity::Error, "`{}` cannot follow another comparison without parentheses"};

inline constexpr Message<> nested_select{"W0101", Severity::Warning, "`a ? b : c ? d : e` means `(a ? b : c) ? d : e`"};
inline constexpr Message<> mixed_xor{"W0102", Severity::Warning, "`|` binds tighter than `^` here, other than in C"};

// ---- lang: checking (further messages that poly/build shares: E0208 E0211 E0213 E0220 E0221) ------------------------

inline constexpr Message<Text> redeclared{"E0110", Severity::Error, "`{}` already has a value"};
inline constexpr Message<Text> used_early{"E0111", Severity::Error, "`{}` is used before it is assigned"};
inline constexpr Message<Text> result_missing{"E0112", Severity::Error, "result `{}` is never assigned"};
inline constexpr Message<Text, Text> element_misplaced{
    "E0113", Severity::Error, "`{}` reads one element, which {} cannot do"};
inline constexpr Message<Text> whole_tensor{
    "E0114", Severity::Error, "`{}` is a whole tensor, but a contraction works on elements"};
inline constexpr Message<> half_select_form{
    "E0115", Severity::Error, "a `?` without `:` stands behind two accesses only: `A[…] == B[…] ? C[…]`"};
inline constexpr Message<Text> unknown_function{"E0116", Severity::Error, "there is no function `{}`"};
inline constexpr Message<Text> unknown_type{"E0117", Severity::Error, "`{}` is not an element type"};
inline constexpr Message<Text> function_redefined{"E0118", Severity::Error, "{} is defined twice"};
inline constexpr Message<Text> unknown_aggregation{"E0120", Severity::Error, "there is no aggregation `{}`"};

inline constexpr Message<Text, Text> import_missing{"E0121", Severity::Error, "`{}` is not found: {}"};
inline constexpr Message<Text> import_cycle{"E0122", Severity::Error, "these files import each other: {}"};
inline constexpr Message<Text, Text> ambiguous_function{
    "E0123", Severity::Error, "`{}` is defined by {} of the imported files"};
inline constexpr Message<Text> recursion{"E0124", Severity::Error, "a function cannot call itself: {}"};
inline constexpr Message<Text, Text> parameter_count{"E0125", Severity::Error, "`{}` takes {}"};
inline constexpr Message<Text, Text> parameter_missing{
    "E0126", Severity::Error, "compile-time parameter `{}` of `{}` has no value"};
inline constexpr Message<Text, Text, Text> parameter_kind{
    "E0127", Severity::Error, "compile-time parameter `{}` is {}, which cannot be {}"};
inline constexpr Message<Text, Text, Text> parameter_value{
    "E0127", Severity::Error, "compile-time parameter `{}` is {}, but is given {}"};
inline constexpr Message<Text, Text> unknown_parameter{
    "E0143", Severity::Error, "`{}` has no compile-time parameter `{}`"};
inline constexpr Message<Text, Text, Text> name_twice{"E0144", Severity::Error, "{} `{}` of `{}` is given twice"};
inline constexpr Message<> name_order{"E0145", Severity::Error, "a value without a name stands behind one with a name"};
inline constexpr Message<Text, Text, Text> no_such_choice{"E0146", Severity::Error, "`{}` is one of {}, not `{}`"};
inline constexpr Message<Text, Text> unknown_input{"E0147", Severity::Error, "`{}` has no input `{}`"};
inline constexpr Message<Text, Text> input_missing{"E0148", Severity::Error, "input `{}` of `{}` is not given"};
inline constexpr Message<Text> names_of_builtin{
    "E0149", Severity::Error, "`{}` takes its arguments in their order, without names"};
inline constexpr Message<Text, Text> input_default{"E0150", Severity::Error, "input `{}` cannot have the default `{}`"};
inline constexpr Message<Text> prefix_unknown{"E0152", Severity::Error, "nothing is imported as `{}`"};
inline constexpr Message<Text> prefix_missing{
    "E0152", Severity::Error, "`{}` is called without the prefix of its import"};
inline constexpr Message<Text> prefix_twice{"E0153", Severity::Error, "two imports are called `{}`"};
inline constexpr Message<Text, Text> default_size{
    "E0151", Severity::Error, "`{}` is known from `{}` only, which is not given"};
inline constexpr Message<Text, Text> derivative_of_nothing{
    "E0128", Severity::Error, "this file has no function `{}` for the {}"};
inline constexpr Message<Text, Text, Text> result_count{"E0129", Severity::Error, "`{}` gives {}, but {} taken"};
inline constexpr Message<Text, Text, Text> dimensions_mix{
    "E0130", Severity::Error, "`dim` keeps `{}` and `{}` apart, but {}"};
inline constexpr Message<Text> foreign{"E0109", Severity::Error, "Tile has no {}"};
inline constexpr Message<Text> missing_semicolon{"E0119", Severity::Error, "a `;` is missing in front of {}"};
inline constexpr Message<Text> not_text{"E0136", Severity::Error, "this is no program: {}"};
inline constexpr Message<Text, Text> attribute_values{"E0131", Severity::Error, "`[[{}]]` {}"};
inline constexpr Message<Text, Text> limit{"E0132", Severity::Error, "the program has more than {} {}"};
inline constexpr Message<Text, Text> pack_misplaced{"E0139", Severity::Error, "`{}...` cannot stand in {}"};
inline constexpr Message<Text, Text> pack_unmarked{
    "E0140", Severity::Error, "`{}` stands for any number of dimensions in `{}`, but for one here"};
inline constexpr Message<Text> pack_marked{
    "E0140", Severity::Error, "`{0}` is one size, but `{0}...` would be any number of them"};
inline constexpr Message<Text> pack_undeclared{"E0141", Severity::Error, "no input has the dimensions `{}...`"};
inline constexpr Message<Text, Text> pack_name_taken{
    "E0142", Severity::Error, "`{}` is what a dimension of `{}...` is called"};
inline constexpr Message<Text, Text> attribute_idle{"W0106", Severity::Warning, "`[[{}]]` has no effect {}"};
inline constexpr Message<Text> dimension_unused{
    "W0105", Severity::Warning, "no size is called `{}`, which `dim` declares"};
inline constexpr Message<Text, Text, Text, Text, Text> dimension{
    "W0210", Severity::Warning, "index `{}` ranges over `{}` of `{}` and over `{}` of `{}`"};
inline constexpr Message<Text> half_select_operator{
    "W0103", Severity::Warning, "`{}` means `==` in front of a `?` without `:`"};
inline constexpr Message<Text> unknown_attribute{
    "W0104", Severity::Warning, "there is no attribute `{}`, so it has no effect"};

// ---- poly -----------------------------------------------------------------------------------------------------------

// build: E0201 to E0239
inline constexpr Message<Text, Text, Text, Text> rank_mismatch{
    "E0201", Severity::Error, "`{}` has {} but is {} with {}"};
inline constexpr Message<Text, Text, Text, Text, Text> size_mismatch{
    "E0202", Severity::Error, "`{}` is {} in `{}` but {} in `{}`"};
inline constexpr Message<Text, Text, Text, Text> derivative_type{
    "E0205", Severity::Error, "`{}` is the {} and has its type `{}`, but is given `{}`"};
inline constexpr Message<std::size_t, Text, Text, Text, Text> size_expression_mismatch{
    "E0203", Severity::Error, "dimension {} of `{}` is {}, but `{}` is {}"};
inline constexpr Message<std::size_t, Text, Text, Text> size_number_mismatch{
    "E0203", Severity::Error, "dimension {} of `{}` is {}, but is declared to be {}"};
inline constexpr Message<Text, Text, Text> given_rank{
    "E0204", Severity::Error, "`{}` is declared with {} but is given {}"};
inline constexpr Message<Text, Text, Text> given_type{
    "E0205", Severity::Error, "`{}` is declared `{}` but is given `{}`"};
inline constexpr Message<Text> unknown_rank{"E0206", Severity::Error, "nothing says how many dimensions `{}` has"};
inline constexpr Message<Text, Text> not_a_size{
    "E0207", Severity::Error, "`{}` is {}; sizes, indices and constraints are made of integers known before the run"};
inline constexpr Message<Text> not_affine{"E0208", Severity::Error, "not an affine index expression: {}"};
inline constexpr Message<Text> size_arithmetic{"E0209", Severity::Error, "size arithmetic: {}"};
inline constexpr Message<Text, Text> negative_size{"E0210", Severity::Error, "size `{}` is negative: {}"};
inline constexpr Message<std::size_t, Text, Text> negative_extent{
    "E0210", Severity::Error, "dimension {} of `{}` is negative: {}"};
inline constexpr Message<Text, std::int64_t> negative_parameter{
    "E0210", Severity::Error, "the parameter of `{}` is negative: {}"};
inline constexpr Message<Text, Text, Text> sizes_count{"E0211", Severity::Error, "`{}` is written with {} but has {}"};
inline constexpr Message<Text, Text, Text, Text> shapes_differ{
    "E0212", Severity::Error, "shapes {} and {} do not broadcast: {} meets {}"};
inline constexpr Message<Text> constraint_only_index{"E0213", Severity::Error, "index `{}` occurs in constraints only"};
inline constexpr Message<Text, Text> integers_only{
    "E0214", Severity::Error, "`{}` works on integers, but its operand is `{}`"};
inline constexpr Message<Text, Text> does_not_fit{"E0215", Severity::Error, "{} does not fit in `{}`"};
inline constexpr Message<Text, Text, Text> default_differs{
    "E0216", Severity::Error, "`default {}` is {}, but the result is {}"};
inline constexpr Message<Text, Text> reshape_count{"E0217", Severity::Error, "`reshape` makes {} elements of {}"};
inline constexpr Message<> reshape_rest{"E0138", Severity::Error, "`reshape` has to be told every size, so none is -1"};
inline constexpr Message<Text, Text> bad_axis{"E0218", Severity::Error, "there is no {} of {}"};
inline constexpr Message<Text, Text> cast_width{"E0219", Severity::Error, "`{}` takes a width of {}"};
inline constexpr Message<Text, Text, Text> argument_count{"E0220", Severity::Error, "`{}` takes {} but is given {}"};
inline constexpr Message<Text> no_such_value{"E0221", Severity::Error, "`{}` is not defined here"};
inline constexpr Message<Text, Text> type_conflict{
    "E0222", Severity::Error, "the result is declared `{}` but has type `{}`"};
inline constexpr Message<Text> ties_misplaced{"E0223", Severity::Error, "`ties` is for `>` and `<`, not for `{}`"};
inline constexpr Message<Text> not_elementwise{"E0225", Severity::Error, "`{}` cannot stand here"};
inline constexpr Message<Text> no_function{"E0226", Severity::Error, "{}"};
inline constexpr Message<Text> unnamed_ties{"E0227", Severity::Error, "`ties` takes split, first or all, not `{}`"};
inline constexpr Message<> not_known_yet{
    "E0228", Severity::Error, "a number that is known before the run is needed here"};
inline constexpr Message<Text, Text, Text> derivative_shape{
    "E0229", Severity::Error, "`{}` is {}, but is the derivative of a tensor that is {}"};
inline constexpr Message<Text, Text> unknown_define{
    "E0230", Severity::Error, "`{}` is no compile-time parameter of `{}`"};
inline constexpr Message<Text, Text, Text> operand_differs{"E0231", Severity::Error, "`{}` takes {}, but {}"};
inline constexpr Message<Text, Text> too_many_positions{
    "E0232", Severity::Error, "`{}` gives positions as i32, which do not reach {}"};
inline constexpr Message<Text, Text> no_elements{
    "E0233", Severity::Error, "`{}` addresses a dimension without elements, but {}"};
inline constexpr Message<> keep_conflict{"E0238", Severity::Error, "a tensor cannot be both saved and recomputed"};
inline constexpr Message<Text, Text, Text> keep_nothing{
    "E0239", Severity::Error, "`[[{}]]` needs a statement that computes a tensor, but `{}` is {}"};
inline constexpr Message<Text> never_integral{
    "W0201", Severity::Warning, "`{}` is never an integer, so no point is valid"};

inline constexpr Message<Text, Text, Text, Text> border_lost{
    "W0211", Severity::Warning, "`{}` leaves `{}` at {}: `{}` is not computed there and holds 0"};
inline constexpr Message<Text, Text, Text> never_inside{
    "W0212", Severity::Warning, "`{}` is never inside `{}`{}: no point counts"};
inline constexpr Message<Text, Text, Text, Text> misaligned{"W0213", Severity::Warning,
    "{} and {} are aligned at the last dimension, so `{}` meets `{}`: right only where the two are equal"};
inline constexpr Message<Text, Text> integer_quotient{
    "W0217", Severity::Warning, "`{}` is a quotient of integers, which is {}"};
inline constexpr Message<Text, Text, Text, Text, Text> stride_too_far{"W0218", Severity::Warning,
    "`{}` is inside `{}` for one in {} of the values of `{}` only: the other elements of `{}` hold 0"};
inline constexpr Message<Text, Text, Text, Text, Text> axes_swapped{
    "W0219", Severity::Warning, "`{}` and `{}` change places in `{}`, whose dimensions are `{}` and `{}`"};
inline constexpr Message<Text, Text, Text> former_name{"W0220", Severity::Warning, "`{}` of `{}` is called `{}` now"};
inline constexpr Message<Text, Text> deprecated_function{
    "W0221", Severity::Warning, "`{}` goes with the next version: write `{}`"};
inline constexpr Message<Text> narrower_than_inputs{
    "W0222", Severity::Warning, "`{}` is f32, and all inputs with a point are f64"};
inline constexpr Message<> xor_power{"W0214", Severity::Warning, "`^` is exclusive or, bit by bit, not a power"};

// bounds: E0240 to E0249
inline constexpr Message<Text, Text> unbounded_index{
    "E0240", Severity::Error, "index `{}` has no {} bound: no access and no constraint limits it"};
inline constexpr Message<Text, Text, Text, Text> colliding_assign{
    "E0241", Severity::Error, "`=` writes `{}` twice: at {} and at {}, both `{}`"};
inline constexpr Message<Text, Text> undecided_assign{
    "E0242", Severity::Error, "cannot prove that `=` writes each element of `{}` once: {}"};
inline constexpr Message<Text, Text> index_too_large{
    "E0243", Severity::Error, "`{}` adds up to {} on the way, and an index has 64 bits"};
inline constexpr Message<Text> overflow{"E0244", Severity::Error, "a number of this statement leaves 64 bits: {}"};
inline constexpr Message<Text, Text> offset_too_large{
    "E0245", Severity::Error, "elements of `{}` lie up to {} bytes apart, and an address has 64 bits"};
inline constexpr Message<Text, Text> scalar_too_large{"E0246", Severity::Error,
    "`{}` is {}, but is part of a size, an index or a constraint, which end at 9223372036854775807"};
inline constexpr Message<Text, Text, Text, Text> leaves_tensor{
    "R0240", Severity::Remark, "`{}` leaves `{}` at {}: elements of `{}` that only such points reach hold the fill"};

// packs: E0260 to E0269
inline constexpr Message<Text, Text, Text, Text, Text> pack_ranks{
    "E0260", Severity::Error, "`{}...` is {} in `{}` but {} in `{}`"};
inline constexpr Message<Text> pack_rank_missing{
    "E0261", Severity::Error, "nothing says how many dimensions `{}...` stands for"};
inline constexpr Message<Text, Text, Text> pack_ranks_open{
    "E0262", Severity::Error, "`{}` has {}, which {} may share in several ways"};
inline constexpr Message<Text, Text> unknown_pack{"E0263", Severity::Error, "{} has no dimensions `{}...`"};

// bind: E0250 to E0259
inline constexpr Message<Text, Text, Text, Text, Text> requirement_fails{
    "E0250", Severity::Error, "{}, but `{}` is {} and `{}` is {}"};
inline constexpr Message<Text, Text, Text> assertion_fails{"E0251", Severity::Error, "{}: `{}` is 0{}"};
inline constexpr Message<Text, Text> unbound_sizes{"E0252", Severity::Error, "{} {} no value"};
inline constexpr Message<Text, Text, Text> tensor_too_large{
    "E0253", Severity::Error, "`{}` is {} of `{}`, more bytes than 63 bits count"};

// ---- autodiff -------------------------------------------------------------------------------------------------------
inline constexpr Message<Text, Text> not_an_output{"E0301", Severity::Error, "`{}` is no output of {}"};
inline constexpr Message<Text> not_given{
    "E0308", Severity::Error, "`{}` is not given, so nothing is differentiated by it"};
inline constexpr Message<Text, Text> not_an_input{"E0302", Severity::Error, "`{}` is no input of {}"};
inline constexpr Message<Text, Text> input_without_gradient{
    "E0303", Severity::Error, "input `{}` is {}: only floats have a derivative"};
inline constexpr Message<Text, Text> output_without_gradient{
    "E0304", Severity::Error, "output `{}` is {}: only floats have a derivative"};
inline constexpr Message<Text> no_float_output{"E0305", Severity::Error, "{} has no float output to differentiate"};
inline constexpr Message<Text> no_float_input{"E0306", Severity::Error, "{} has no float input to differentiate by"};
inline constexpr Message<Text> unordered_product{"E0307", Severity::Error,
    "the factors of `{}` cannot be ordered: too few of its indices are bounded on both sides"};
inline constexpr Message<Text> unordered_ties{"E0309", Severity::Error,
    "`ties(first)` cannot order the points of `{}`: too few of its indices are bounded on both sides"};
inline constexpr Message<Text, Text, Text> half_a_rule{
    "E0310", Severity::Error, "`{}` has a `{}` of its own but no `{}`"};
inline constexpr Message<Text, Text, Text> batch_missing{"E0340", Severity::Error, "`{}` takes {}, but is given {}"};
inline constexpr Message<Text, std::int64_t, Text, std::int64_t> batches_differ{
    "E0341", Severity::Error, "the batch has {1} elements in `{0}` but {3} in `{2}`"};
inline constexpr Message<Text> batched_size{
    "E0342", Severity::Error, "`{}` is a size, which is one for the whole batch"};
inline constexpr Message<Text> nothing_to_batch{"E0343", Severity::Error, "{} has no input that a batch can be of"};
inline constexpr Message<Text, std::int64_t> keep_too_much{
    "E0331", Severity::Error, "backward needs {} bytes of what forward makes, and {} may be kept"};
inline constexpr Message<Text, Text> keep_apart{"E0330", Severity::Error,
    "`{}` cannot be recomputed while `{}`, the extreme it is compared with, is saved: another rounding would miss it"};

// ---- codegen --------------------------------------------------------------------------------------------------------

// ---- runtime and command line ---------------------------------------------------------------------------------------
inline constexpr Message<Text, Text> unreadable{"E0501", Severity::Error, "`{}` cannot be read: {}"};
inline constexpr Message<Text, Text> unwritable{"E0502", Severity::Error, "`{}` cannot be written: {}"};
inline constexpr Message<Text, Text> not_npy{"E0503", Severity::Error, "`{}` is not a NumPy file: {}"};
inline constexpr Message<Text, std::int64_t, std::int64_t> truncated{
    "E0504", Severity::Error, "`{}` ends early: its header promises {} bytes of elements, {} are there"};
inline constexpr Message<Text, Text> foreign_dtype{
    "E0505", Severity::Error, "`{}` holds elements of NumPy type `{}`, which Tile does not have"};
inline constexpr Message<Text, Text> bad_archive{
    "E0506", Severity::Error, "`{}` is not a .npz archive that can be read: {}"};
inline constexpr Message<Text, Text> no_member{"E0507", Severity::Error, "`{}` holds no array called `{}`"};
inline constexpr Message<Text, Text> bad_header{
    "E0508", Severity::Error, "the header of `{}` cannot be understood: {}"};
inline constexpr Message<Text, Text> bad_value{"E0509", Severity::Error, "the value of `{}` cannot be read: {}"};
inline constexpr Message<Text> missing_input{"E0510", Severity::Error, "input `{}` has no value"};
inline constexpr Message<Text, Text> unknown_argument{
    "E0511", Severity::Error, "`{}` is neither an input nor an output of {}"};
inline constexpr Message<Text, Text> out_of_memory{"E0512", Severity::Error, "no memory for `{}`: {}"};
inline constexpr Message<Text, Text> too_large{
    "E0513", Severity::Error, "`{}` of {} elements has more bytes than 63 bits count"};
inline constexpr Message<Text> unknown_target{"E0514", Severity::Error, "`{}` is no target"};
inline constexpr Message<Text> target_not_built{
    "E0515", Severity::Error, "this tilec was built without the `{}` target"};
inline constexpr Message<Text, Text> overwrites_input{
    "E0532", Severity::Error, "`{}` would overwrite `{}`, which this command reads"};
inline constexpr Message<Text, Text> wrong_layout{
    "E0536", Severity::Error, "`{}` was built with strides {}, and the command line has dense tensors only"};
inline constexpr Message<Text> no_package{"E0535", Severity::Error, "this program cannot be saved: {}"};
inline constexpr Message<Text, Text> bad_package{"E0534", Severity::Error, "`{}` is no package that can be loaded: {}"};
inline constexpr Message<Text, Text> one_file_twice{
    "E0533", Severity::Error, "`{}` and `{}` are one file, and both would be written"};
inline constexpr Message<Text, Text, Text> wrong_shape{"E0517", Severity::Error, "`{}` is {} but is given {}"};
inline constexpr Message<Text, Text> wrong_device{
    "E0518", Severity::Error, "`{}` lies in {} memory, where this program cannot reach it"};
inline constexpr Message<Text> no_pair{"E0539", Severity::Error, "`{}` was saved without its backward pass"};
inline constexpr Message<Text> unknown_stage{"E0530", Severity::Error, "`{}` is no stage"};
inline constexpr Message<Text, Text, Text, std::int64_t> index_out_of_range{
    "E0540", Severity::Error, "`{}` is {}, but `{}` takes indices from 0 to below {} here"};
inline constexpr Message<Text, Text> malformed_case{"E0531", Severity::Error, "a test case needs {}, but {}"};
inline constexpr Message<Text, Text> no_linker{"E0545", Severity::Error, "`cc` makes no {}: {}"};
inline constexpr Message<Text, std::int64_t, Text, std::int64_t, Text> given_size_differs{
    "E0550", Severity::Error, "`{}` is {} in `{}` but {} in `{}`"};
inline constexpr Message<Text, Text> unknown_size{"E0551", Severity::Error, "`{}` is no size of {}"};
inline constexpr Message<Text, Text> outputs_overlap{"E0552", Severity::Error, "outputs `{}` and `{}` share memory"};
inline constexpr Message<Text> output_overlaps_itself{
    "E0553", Severity::Error, "several elements of output `{}` lie at one place in memory"};
inline constexpr Message<Text, Text> bad_call{"E0554", Severity::Error, "`{}`: {}"};
inline constexpr Message<Text, Text> given_twice{"E0555", Severity::Error, "{} `{}` is given twice"};
inline constexpr Message<Text, Text, int> misaligned_data{
    "E0556", Severity::Error, "`{}` lies at {}, which is no multiple of the {} bytes of its elements"};
inline constexpr Message<Text, Text, Text> result_type{
    "E0557", Severity::Error, "output `{}` is `{}` but its memory is `{}`"};
inline constexpr Message<Text> no_result{"E0558", Severity::Error, "output `{}` has no memory"};
inline constexpr Message<Text, Text> bad_tensor{"E0559", Severity::Error, "the tensor of `{}` cannot be used: {}"};
// plans
inline constexpr Message<Text> plan_line{"E0560", Severity::Error, "this line of the plan cannot be read: {}"};
inline constexpr Message<Text, Text> plan_refused{"E0561", Severity::Error, "`{}` does not apply: {}"};
inline constexpr Message<Text, Text> plan_order{"E0562", Severity::Error, "`{}` stands behind `{}`"};
inline constexpr Message<Text, Text> plan_group{"E0563", Severity::Error, "the group of `{}` does not fit: {}"};
inline constexpr Message<Text, Text> unusable_cache{"W0565", Severity::Warning, "`{}` is no part of the cache: {}"};
inline constexpr Message<Text> plan_unused{"E0564", Severity::Error, "{} follows no plan"};
inline constexpr Message<Text, Text> stale_plan{
    "W0566", Severity::Warning, "the plan that `tilec tune` found for `{}` is not followed: {}"};
inline constexpr Message<Text, Text> no_peer{"E0546", Severity::Error, "`{}` is not here to be measured: {}"};
inline constexpr Message<Text, Text> peer_fault{"E0547", Severity::Error, "`{}` cannot compute what --vs says: {}"};
inline constexpr Message<Text, Text, Text> peer_differs{"E0548", Severity::Error, "`{}` of `{}` is another result: {}"};
inline constexpr Message<Text, Text, Text> no_formula{
    "E0549", Severity::Error, "`{}` is given no formula for `{}`: {}"};
// devices
inline constexpr Message<Text, Text> no_device{"E0520", Severity::Error, "target `{}` has no device here: {}"};
inline constexpr Message<Text, Text, Text> device_compile{
    "E0521", Severity::Error, "the compiler of {} refused the text that was emitted for it, saved as `{}`:\n{}"};
inline constexpr Message<Text, Text, Text> device_call{"E0522", Severity::Error, "`{}` of {} failed: {}"};
inline constexpr Message<std::int64_t, Text> device_memory{
    "E0523", Severity::Error, "no room for {} bytes in the memory of {}"};
inline constexpr Message<Text> no_nvrtc{"E0524", Severity::Error, "CUDA text cannot be compiled here: {}"};
inline constexpr Message<Text, Text> unsupported_on_device{
    "E0525", Severity::Error, "{} does not have {}, which this program needs"};
inline constexpr Message<Text, Text, int> old_driver{
    "E0526", Severity::Error, "the driver of {} is of CUDA {} and does not load code of NVRTC {}"};

}  // namespace tilec::lang::messages
