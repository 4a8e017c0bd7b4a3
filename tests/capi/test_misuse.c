/* The C API as a hostile caller finds it: every entry point with every pointer NULL, every list too long, every enum
 * value out of range, memory that overlaps. Each is a status with a message that names what is wrong; nothing crashes,
 * nothing is written. */
#include <stdlib.h>

#include "expect.h"

/* The call fails with the status, and its message has both words. */
#define REFUSES(status, call, one, other)                                                                              \
  EXPECT((call) == (status) && strstr(tilec_last_error(), one) != NULL && strstr(tilec_last_error(), other) != NULL && \
         tilec_last_diagnostic_count() >= 1)

static const char text[] = "function add(A[N], B[N]) -> (C, D) {\n  C = A + B;\n  D = A - B;\n}\n";
static const char scaled[] = "function (X[N], S, T) -> (Y) { Y[i: N / S] = =(X[S * i] * T); }";

static float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {6, 5, 4, 3, 2, 1}, c[6], d[6];
static int64_t six[1] = {6}, one_step[1] = {1};

static tilec_status compile_with(const tilec_options* options) {
  tilec_program* program = NULL;
  tilec_status status = tilec_compile(text, strlen(text), options, &program);
  EXPECT((status == TILEC_OK) == (program != NULL));
  tilec_program_destroy(program);
  return status;
}

static void null_pointers_of_questions(void) {
  tilec_diagnostic diagnostic;
  EXPECT(tilec_program_name(NULL) == NULL && tilec_input_count(NULL) == 0 && tilec_output_count(NULL) == 0);
  EXPECT(tilec_input_name(NULL, 0) == NULL && tilec_output_name(NULL, 0) == NULL && tilec_output_first(NULL, 7) == 7);
  EXPECT(tilec_kernel_input_count(NULL) == 0 && tilec_kernel_output_count(NULL) == 0);
  EXPECT(tilec_buffer_data(NULL) == NULL && tilec_buffer_size(NULL) == 0);
  EXPECT(tilec_last_diagnostic(0, NULL) == TILEC_ARGUMENT_ERROR &&
      tilec_last_diagnostic(99, &diagnostic) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_last_diagnostic_text(99) == NULL);
  EXPECT(tilec_function_count(NULL, 5) == 0 && tilec_function_name(NULL, 5, 0) == NULL);
  EXPECT(tilec_function_count(NULL, 0) == 0 && tilec_function_name(text, strlen(text), 7) == NULL);
  tilec_program_destroy(NULL);
  tilec_kernel_destroy(NULL);
  tilec_buffer_destroy(NULL);
}

static void null_pointers_of_compile(void) {
  tilec_program* program = NULL;
  tilec_options options = defaults();
  const char* folders[2] = {".", NULL};
  tilec_define defines[2] = {{"S", 2, NULL}, {NULL, 2, NULL}};
  tilec_size sizes[2] = {{"N", 6}, {NULL, 6}};
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_compile(text, strlen(text), NULL, NULL), "tilec_compile", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_compile(NULL, 5, NULL, &program), "tilec_compile", "`text` is NULL");
  EXPECT(tilec_compile(NULL, 0, NULL, &program) == TILEC_PROGRAM_ERROR);
  options.defines = NULL, options.define_count = 1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "`options.defines` is NULL", "1");
  options.defines = defines, options.define_count = 2;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "options.defines[1].name", "NULL");
  options = defaults();
  options.size_count = 3;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "`options.sizes` is NULL", "3");
  options.sizes = sizes, options.size_count = 2;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "options.sizes[1].name", "NULL");
  options = defaults();
  options.include_count = 1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "`options.include` is NULL", "1");
  options.include = folders, options.include_count = 2;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "options.include[1]", "NULL");
}

static const char several[] =
    "function twice(X) -> (Y) { Y = X * 2.0; }\nfunction both(X) -> (Y, Z) { Y = twice(X); Z = X; }\n";

static tilec_file* parsed(const char* file_text) {
  tilec_file* file = NULL;
  EXPECT(
      tilec_parse(file_text, strlen(file_text), "ops.tile", NULL, 0, &file) == TILEC_OK && tilec_last_error()[0] == 0);
  return file;
}

static tilec_program* function_of(const tilec_file* file, const char* name) {
  tilec_options options = defaults();
  tilec_program* program = NULL;
  options.function = name;
  EXPECT(tilec_file_compile(file, &options, &program) == TILEC_OK);
  return program;
}

static void null_pointers_of_files(void) {
  const char* folders[2] = {".", NULL};
  tilec_options options = defaults();
  tilec_program* program = NULL;
  tilec_file *file = NULL, *kept = parsed(several);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_parse(several, strlen(several), NULL, NULL, 0, NULL), "tilec_parse",
      "`file` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_parse(NULL, 5, NULL, NULL, 0, &file), "tilec_parse", "`text` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_parse(several, strlen(several), NULL, NULL, 1, &file), "`include` is NULL", "1");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_parse(several, strlen(several), NULL, folders, 2, &file), "include[1]", "NULL");
  REFUSES(TILEC_PROGRAM_ERROR, tilec_parse("function f(", 11, "ops.tile", NULL, 0, &file), "ops.tile:1:", "E0");
  REFUSES(TILEC_PROGRAM_ERROR, tilec_parse("import \"none.tile\";", 19, NULL, folders, 1, &file), "none.tile", "E0");
  EXPECT(file == NULL);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_file_compile(NULL, NULL, &program), "tilec_file_compile", "`file` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_file_compile(kept, NULL, NULL), "tilec_file_compile", "`program` is NULL");
  REFUSES(TILEC_PROGRAM_ERROR, tilec_file_compile(kept, NULL, &program), "twice", "both"); /* which of the two? */
  options.function = "thrice";
  REFUSES(TILEC_PROGRAM_ERROR, tilec_file_compile(kept, &options, &program), "E0226",
      "`thrice`; the file has `twice`, `both`");
  options.function = "both", options.size = 3;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_file_compile(kept, &options, &program), "tilec_file_compile", "options.size");
  options.size = sizeof options, options.threads = -1;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_file_compile(kept, &options, &program), "tilec_file_compile", "options.threads");
  options.threads = 0, options.file_name = "other.tile";
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_file_compile(kept, &options, &program), "options.file_name", "tilec_parse");
  options.file_name = NULL, options.include = folders, options.include_count = 1;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_file_compile(kept, &options, &program), "options.include", "tilec_parse");
  EXPECT(program == NULL);
  EXPECT(tilec_file_function_count(NULL) == 0 && tilec_file_function_name(NULL, 0) == NULL);
  EXPECT(tilec_file_function_count(kept) == 2 && tilec_file_function_name(kept, 2) == NULL &&
      tilec_file_function_name(kept, (size_t)-1) == NULL);
  EXPECT(strcmp(tilec_file_function_name(kept, 0), "twice") == 0 &&
      strcmp(tilec_file_function_name(kept, 1), "both") == 0);
  tilec_file_destroy(NULL);
  tilec_file_destroy(kept);
}

/* A program outlives the file it came from, and another file at the same address is another file. */
static void a_program_outlives_its_file(void) {
  tilec_file* file = parsed(several);
  tilec_program* program = function_of(file, "twice");
  DLTensor ta = tensor(a, 1, six, NULL), tc = tensor(c, 1, six, NULL);
  tilec_argument in = argument(&ta), out = argument(&tc);
  int round;
  tilec_file_destroy(file);
  EXPECT(tilec_run(program, &in, 1, &out, 1) == TILEC_OK && c[5] == 2 * a[5]);
  tilec_program_destroy(program);
  for (round = 1; round < 20; ++round) {
    char other[80];
    snprintf(other, sizeof other, "function f(X) -> (Y) { Y = X * %d.0; }", round);
    file = parsed(other);
    program = function_of(file, "f");
    tilec_file_destroy(file);
    EXPECT(tilec_run(program, &in, 1, &out, 1) == TILEC_OK && c[5] == (float)round * a[5]);
    tilec_program_destroy(program);
  }
}

/* What the text is warned of is said when it is parsed, and not again for each of its functions. */
static void warnings_of_a_file(void) {
  tilec_file* file = parsed(
      "function f(A) -> (B) { B = A; }\nfunction g(A, B, C) -> (O) {\n  O = A > 0 ? B : C > 0 ? A : B;\n}\n"); /* W0101 */
  tilec_program* program;
  EXPECT(tilec_last_diagnostic_count() == 1 && strstr(tilec_last_diagnostic_text(0), "ops.tile:3:") != NULL);
  program = function_of(file, "g");
  EXPECT(tilec_last_diagnostic_count() == 0);
  tilec_program_destroy(program);
  tilec_file_destroy(file);
}

static void options_of_every_size(void) {
  struct { tilec_options known; char more[16]; } newer;
  tilec_options options = defaults();
  size_t size, taken = 0;
  for (size = 0; size < sizeof options; ++size) {
    options.size = size;
    if (compile_with(&options) == TILEC_OK) ++taken;
    else EXPECT(strstr(tilec_last_error(), "options.size") != NULL);
  }
  EXPECT(taken == 17); /* where a field ends: an older header's struct */
  options = defaults();
  options.target = "abacus";
  options.size = offsetof(tilec_options, target);
  EXPECT(compile_with(&options) == TILEC_OK); /* too old to have a target */
  options.size = sizeof options;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0514", "abacus");
  memset(&newer, 0, sizeof newer);
  newer.known = defaults();
  newer.known.size = sizeof newer;
  EXPECT(compile_with(&newer.known) == TILEC_OK);
  newer.more[7] = 1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&newer.known), "E0554", "does not have");
  options = defaults();
  options.size = (size_t)-1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0554", "options");
}

static void options_that_mean_nothing(void) {
  tilec_options options = defaults();
  tilec_define twice[2] = {{"S", 2, NULL}, {"S", 3, NULL}};
  tilec_size sizes[2] = {{"N", 6}, {"N", 7}};
  options.threads = -1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "options.threads", "-1");
  options = defaults();
  options.defines = twice, options.define_count = 2;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0555", "`S`");
  options = defaults();
  options.sizes = sizes, options.size_count = 2;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0555", "`N`");
  sizes[0].name = "n", options.size_count = 1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0551", "did you mean `N`?");
  options = defaults();
  options.function = "sub";
  REFUSES(TILEC_PROGRAM_ERROR, compile_with(&options), "`sub`", "`add`");
  options = defaults();
  for (options.checked = -1; options.checked <= 7; options.checked += 3)
    REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0554", "options.checked");
  options.checked = 1;
  EXPECT(compile_with(&options) == TILEC_OK);
  options = defaults();
  sizes[0].name = "N", sizes[0].value = -5, options.sizes = sizes, options.size_count = 1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0210", "`N` is negative: -5");
  sizes[0].value = 0;
  EXPECT(compile_with(&options) == TILEC_OK);
  options = defaults();
  sizes[0].name = sizes[1].name = "B", options.ranks = sizes, options.rank_count = 2;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0555", "rank `B`");
  options.rank_count = 1;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "E0263", "`B...`");
  options.ranks = NULL;
  REFUSES(TILEC_ARGUMENT_ERROR, compile_with(&options), "options.ranks", "NULL");
  options = defaults();
  options.function = "add", options.file_name = "", options.kernels = 1;
  EXPECT(compile_with(&options) == TILEC_OK);
}

/* Each list of names, by each function that takes one. */
static void names_that_are_given_twice(void) {
  tilec_program *program = compiled(text, NULL), *made = NULL;
  tilec_kernel *forward = NULL, *backward = NULL;
  const char* inputs[3] = {"A", "B", "A"};
  const char* outputs[2] = {"C", "C"};
  tilec_status (*const derivative[3])(const tilec_program*, const char* const*, size_t, const char* const*, size_t,
      tilec_program**) = {tilec_gradient, tilec_jvp, tilec_value_and_gradient};
  int k;
  for (k = 0; k < 3; ++k) {
    REFUSES(
        TILEC_ARGUMENT_ERROR, derivative[k](program, NULL, 0, inputs, 3, &made), "E0555", "`wrt`: `A` is given twice");
    REFUSES(
        TILEC_ARGUMENT_ERROR, derivative[k](program, outputs, 2, NULL, 0, &made), "E0555", "`of`: `C` is given twice");
  }
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(program, NULL, 0, inputs, 3, NULL, 0, NULL, 0, &forward, &backward), "E0555",
      "`wrt`: `A` is given twice");
  EXPECT(made == NULL && forward == NULL && backward == NULL);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vmap(program, inputs, 3, &made), "E0555", "`inputs`: `A` is given twice");
  EXPECT(made == NULL);
  EXPECT(derivative[0](program, outputs, 1, inputs, 2, &made) == TILEC_OK);
  tilec_program_destroy(made);
  tilec_program_destroy(program);
}

static void batches(void) {
  tilec_program *program =
                    compiled("function (A[N], B[N], P[]) -> (C) { C[i: N] = +(A[i + j] * B[j]), 0 <= j < P; }", NULL),
                *batched = NULL;
  const char* names[3] = {"A", NULL, "P"};
  float a[6] = {1, 2, 3, 4, 5, 6}, b[3] = {1, 1, 1}, c[6];
  int64_t many[2] = {2, 3}, one[1] = {3};
  DLTensor from = {a, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, many, NULL, 0},
           same = {b, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, one, NULL, 0},
           to = {c, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, many, NULL, 0};
  tilec_argument in[3] = {{"A", TILEC_TENSOR, &from, 0, 0}, {"B", TILEC_TENSOR, &same, 0, 0},
      {"P", TILEC_INTEGER, NULL, 2, 0}},
                 out[1] = {{"C", TILEC_TENSOR, &to, 0, 0}};
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vmap(NULL, NULL, 0, &batched), "E0554", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vmap(program, NULL, 0, NULL), "E0554", "`batched` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vmap(program, NULL, 1, &batched), "E0554", "`inputs` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vmap(program, names, 2, &batched), "E0554", "`inputs[1]` is NULL");
  REFUSES(TILEC_PROGRAM_ERROR, tilec_vmap(program, names + 2, 1, &batched), "E0342", "`P` is a size");
  names[1] = "Q";
  REFUSES(TILEC_PROGRAM_ERROR, tilec_vmap(program, names, 2, &batched), "E0302", "`Q` is no input");
  EXPECT(batched == NULL);
  EXPECT(tilec_vmap(program, names, 1, &batched) == TILEC_OK);
  EXPECT(tilec_run(batched, in, 3, out, 1) == TILEC_OK && c[0] == 3 && c[2] == 3 && c[3] == 9 && c[5] == 6);
  in[0].tensor = &same;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(batched, in, 3, out, 1), "E0340",
      "`A` takes 1 dimension and one of the batch in front");
  tilec_program_destroy(batched);
  tilec_program_destroy(program);
}

/* A number for an undeclared scalar has the type of what it meets, also when the kernel is there already. */
static void numbers_that_a_type_does_not_have(void) {
  tilec_program* program = compiled("function (X[N], S) -> (Y) { Y = X * S; }", NULL);
  uint8_t x[2] = {1, 2}, y[2] = {0, 0};
  int64_t two[1] = {2};
  DLTensor from = {x, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, two, NULL, 0},
           to = {y, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, two, NULL, 0};
  tilec_argument in[2] = {{"X", TILEC_TENSOR, &from, 0, 0}, {"S", TILEC_INTEGER, NULL, 3, 0}},
                 out[1] = {{"Y", TILEC_TENSOR, &to, 0, 0}};
  EXPECT(tilec_run(program, in, 2, out, 1) == TILEC_OK && y[1] == 6);
  for (in[1].integer = -1; in[1].integer < 1000; in[1].integer += 301) {
    REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(program, in, 2, out, 1), "E0215", "`S`");
    EXPECT(y[1] == 6);
  }
  tilec_program_destroy(program);
}

static void null_pointers_of_derivatives(void) {
  tilec_program *program = compiled(text, NULL), *made = NULL;
  const char* names[2] = {"A", NULL};
  const char* outputs[2] = {"C", NULL};
  tilec_status (*const derivative[2])(const tilec_program*, const char* const*, size_t, const char* const*, size_t,
      tilec_program**) = {tilec_gradient, tilec_jvp};
  int k;
  for (k = 0; k < 2; ++k) {
    REFUSES(TILEC_ARGUMENT_ERROR, derivative[k](NULL, NULL, 0, NULL, 0, &made), "E0554", "`program` is NULL");
    REFUSES(TILEC_ARGUMENT_ERROR, derivative[k](program, NULL, 0, NULL, 0, NULL), "E0554",
        k == 0 ? "`gradient` is NULL" : "`tangent` is NULL");
    REFUSES(TILEC_ARGUMENT_ERROR, derivative[k](program, NULL, 1, NULL, 0, &made), "E0554", "`of` is NULL");
    REFUSES(TILEC_ARGUMENT_ERROR, derivative[k](program, NULL, 0, NULL, 1, &made), "E0554", "`wrt` is NULL");
    REFUSES(TILEC_ARGUMENT_ERROR, derivative[k](program, outputs, 2, NULL, 0, &made), "E0554", "`of[1]` is NULL");
    REFUSES(TILEC_ARGUMENT_ERROR, derivative[k](program, NULL, 0, names, 2, &made), "E0554", "`wrt[1]` is NULL");
    names[1] = "Q";
    REFUSES(TILEC_PROGRAM_ERROR, derivative[k](program, NULL, 0, names, 2, &made), "E0302", "`Q`");
    names[1] = NULL;
    EXPECT(made == NULL);
  }
  tilec_program_destroy(program);
}

static tilec_status specialise(
    const tilec_program* program, const tilec_argument* in, size_t ins, const tilec_argument* out, size_t outs) {
  tilec_kernel* kernel = NULL;
  tilec_status status = tilec_specialize(program, in, ins, out, outs, &kernel);
  EXPECT((status == TILEC_OK) == (kernel != NULL));
  tilec_kernel_destroy(kernel);
  return status;
}

static tilec_status infer(const tilec_program* program, const tilec_argument* in, size_t ins) {
  tilec_kernel* kernel = NULL;
  tilec_status status = tilec_infer(program, in, ins, &kernel);
  EXPECT((status == TILEC_OK) == (kernel != NULL));
  tilec_kernel_destroy(kernel);
  return status;
}

static tilec_status emit(const tilec_program* program, const tilec_argument* in, size_t ins) {
  tilec_buffer* buffer = NULL;
  tilec_status status = tilec_emit(program, "bound", in, ins, &buffer);
  EXPECT((status == TILEC_OK) == (buffer != NULL));
  tilec_buffer_destroy(buffer);
  return status;
}

/* Every function that takes arguments says the same of them. */
#define ALL_REFUSE(status, in, ins, one, other)                              \
  do {                                                                       \
    REFUSES(status, specialise(program, in, ins, NULL, 0), one, other);      \
    REFUSES(status, tilec_run(program, in, ins, NULL, 0), one, other);       \
    REFUSES(status, infer(program, in, ins), one, other);                    \
    REFUSES(status, emit(program, in, ins), one, other);                     \
  } while (0)

static void arguments_of_every_kind(void) {
  tilec_program *program = compiled(text, NULL), *sized = compiled(scaled, NULL);
  DLTensor ta = tensor(a, 1, six, NULL), tb = tensor(b, 1, six, one_step), bad;
  tilec_argument in[3], three[3];
  int64_t negative[1] = {-6}, huge[2] = {(int64_t)1 << 40, (int64_t)1 << 40}, far[1] = {(int64_t)1 << 62},
          most[1] = {INT64_MIN};
  int kind;
  in[0] = argument(&ta), in[1] = argument(&tb);
  EXPECT(specialise(program, in, 2, NULL, 0) == TILEC_OK && infer(program, in, 2) == TILEC_OK &&
      emit(program, in, 2) == TILEC_OK);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, NULL, 2, "E0554", "`arguments` is NULL");
  ALL_REFUSE(TILEC_TYPE_ERROR, in, 1, "E0510", "`B`");
  in[2] = argument(&ta);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 3, "E0511", "input 3");
  in[1].name = "A";
  ALL_REFUSE(TILEC_TYPE_ERROR, in, 2, "E0555", "`A`");
  in[1].name = "Q";
  ALL_REFUSE(TILEC_TYPE_ERROR, in, 2, "E0511", "`Q`");
  in[1].name = "";
  ALL_REFUSE(TILEC_TYPE_ERROR, in, 2, "E0511", "``");
  in[1].name = NULL;
  for (kind = -3; kind < 40; ++kind) {
    if (kind >= 0 && kind <= TILEC_NONE) continue;
    memcpy(&in[1].kind, &kind, sizeof in[1].kind);
    ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "kind");
  }
  in[1].kind = TILEC_ADD;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "input");
  in[1].kind = TILEC_NONE;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "input");
  in[1].kind = TILEC_INTEGER;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0204", "`B`");
  in[1] = argument(NULL);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "NULL");
  in[1] = argument(&bad);
  bad = tensor(b, -1, six, NULL);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "-1 dimensions");
  bad = tensor(b, 65, six, NULL);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "65 dimensions");
  bad = tensor(b, INT32_MAX, six, NULL);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "dimensions");
  bad = tensor(b, 1, NULL, NULL);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "shape is NULL");
  bad = tensor(b, 1, negative, NULL);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "-6");
  bad = tensor(b, 1, six, far);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "strides");
  bad = tensor(b, 1, six, most);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "strides");
  bad = tensor(b, 2, huge, NULL);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "");
  bad = tensor(b, 1, six, NULL);
  bad.byte_offset = UINT64_MAX;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "byte_offset");
  bad.data = NULL, bad.byte_offset = 4;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0559", "NULL");
  bad = tensor(b, 1, six, NULL);
  bad.dtype.lanes = 4;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "element type");
  bad.dtype.lanes = 1, bad.dtype.bits = 7;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "element type");
  bad.dtype.bits = 32, bad.dtype.code = 77;
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "`B`", "element type");
  bad.dtype.code = kDLFloat;
  memset(&bad.device, 0x55, sizeof bad.device);
  ALL_REFUSE(TILEC_ARGUMENT_ERROR, in, 2, "E0518", "`B`");
  ta = tensor(NULL, 0, NULL, NULL);
  ta.dtype.code = kDLInt;
  three[0] = argument(&tb), three[1] = argument(&ta), three[2] = argument(&tb);
  three[2].tensor = NULL, three[2].kind = TILEC_REAL, three[2].real = 2;
  REFUSES(
      TILEC_ARGUMENT_ERROR, specialise(sized, three, 3, NULL, 0), "E0559", "`S`"); /* a size whose value is needed */
  three[1].kind = TILEC_REAL, three[1].real = 2;
  REFUSES(TILEC_TYPE_ERROR, specialise(sized, three, 3, NULL, 0), "E0207", "`S`");
  three[1].kind = TILEC_INTEGER, three[1].integer = 0;
  EXPECT(specialise(sized, three, 3, NULL, 0) != TILEC_OK); /* N / 0 */
  tilec_program_destroy(program);
  tilec_program_destroy(sized);
}

/* A number is kept by its type or refused by name, also at a call for which the kernel is there already. */
static void numbers_of_every_type(void) {
  static const struct { const char* type; uint8_t code, bits; int64_t least; uint64_t most;
  } types[] = {{"i8", kDLInt, 8, INT8_MIN, INT8_MAX}, {"i16", kDLInt, 16, INT16_MIN, INT16_MAX},
      {"i32", kDLInt, 32, INT32_MIN, INT32_MAX}, {"i64", kDLInt, 64, INT64_MIN, INT64_MAX},
      {"u8", kDLUInt, 8, 0, UINT8_MAX}, {"u16", kDLUInt, 16, 0, UINT16_MAX}, {"u32", kDLUInt, 32, 0, UINT32_MAX},
      {"u64", kDLUInt, 64, 0, UINT64_MAX}, {"bool", kDLBool, 8, 0, 1}};
  static const int64_t plain[] = {
      0, 1, -1, 2, 127, 128, 300, -129, 65536, -2147483649, 4294967296, INT64_MAX, INT64_MIN};
  static const double reals[] = {1.0, 1.5, -3.0, 1e10, 1e30};
  size_t t, k;
  for (t = 0; t < sizeof types / sizeof *types; ++t) {
    char program_text[80];
    tilec_program* program;
    DLTensor ty;
    int64_t y = 0;
    tilec_argument in, out;
    snprintf(program_text, sizeof program_text, "function (%s S) -> (Y) { Y = S; }", types[t].type);
    program = compiled(program_text, NULL);
    ty = tensor(&y, 0, NULL, NULL);
    ty.dtype.code = types[t].code, ty.dtype.bits = types[t].bits;
    memset(&in, 0, sizeof in);
    out = argument(&ty);
    in.kind = TILEC_INTEGER, in.integer = 1;
    EXPECT(tilec_run(program, &in, 1, &out, 1) == TILEC_OK && (y & 0xff) == 1);
#define KEPT_OR_REFUSED(fits)                                                                                    \
  do {                                                                                                           \
    if (fits) EXPECT(tilec_run(program, &in, 1, &out, 1) == TILEC_OK);                                           \
    else                                                                                                         \
      EXPECT(tilec_run(program, &in, 1, &out, 1) != TILEC_OK && strstr(tilec_last_error(), "E0215") != NULL &&   \
             strstr(tilec_last_error(), "`S`") != NULL);                                                         \
  } while (0)
    for (k = 0; k < sizeof plain / sizeof *plain; ++k) {
      in.kind = TILEC_INTEGER, in.integer = plain[k];
      KEPT_OR_REFUSED(plain[k] >= types[t].least && (plain[k] < 0 || (uint64_t)plain[k] <= types[t].most));
      in.kind = TILEC_UNSIGNED;
      KEPT_OR_REFUSED((uint64_t)plain[k] <= types[t].most);
    }
    for (k = 0; k < sizeof reals / sizeof *reals; ++k) {
      in.kind = TILEC_REAL, in.real = reals[k];
      KEPT_OR_REFUSED(reals[k] == (double)(int64_t)(reals[k] < 9e18 ? reals[k] : 0) &&
          reals[k] >= (double)types[t].least && reals[k] <= (double)types[t].most);
    }
    tilec_program_destroy(program);
  }
}

static void results_of_every_kind(void) {
  tilec_program* program = compiled(text, NULL);
  DLTensor ta = tensor(a, 1, six, NULL), tb = tensor(b, 1, six, NULL), tc = tensor(c, 1, six, NULL),
           td = tensor(d, 1, six, NULL), bad;
  tilec_argument in[2], out[3];
  int64_t five[1] = {5}, none[1] = {0};
  double wide[6];
  int kind;
  const int both = 2;
  in[0] = argument(&ta), in[1] = argument(&tb), out[0] = argument(&tc), out[1] = argument(&td);
  EXPECT(tilec_run(program, in, 2, out, 2) == TILEC_OK && c[0] == 7 && d[0] == -5 && tilec_last_error()[0] == 0);
#define BOTH_REFUSE(status, outs, one, other)                              \
  do {                                                                     \
    REFUSES(status, specialise(program, in, both, out, outs), one, other); \
    REFUSES(status, tilec_run(program, in, both, out, outs), one, other);  \
  } while (0)
  REFUSES(TILEC_ARGUMENT_ERROR, specialise(program, in, 2, NULL, 1), "E0554", "`results` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(program, in, 2, NULL, 1), "E0554", "`results` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(program, in, 2, out, 1), "E0558", "`D`");
  out[2] = argument(&tc);
  BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 3, "E0511", "output 3");
  out[1].name = "C";
  BOTH_REFUSE(TILEC_TYPE_ERROR, 2, "E0555", "`C`");
  out[1].name = "A";
  BOTH_REFUSE(TILEC_TYPE_ERROR, 2, "E0511", "`A`");
  out[1].name = NULL;
  for (kind = -3; kind < 40; ++kind) {
    if (kind == TILEC_TENSOR || kind == TILEC_ADD || kind == TILEC_NONE) continue;
    memcpy(&out[1].kind, &kind, sizeof out[1].kind);
    BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 2, "`D`", "");
  }
  out[1].kind = TILEC_NONE;
  EXPECT(tilec_run(program, in, 2, out, 2) == TILEC_OK);
  out[0].kind = TILEC_NONE;
  BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 2, "E0554", "TILEC_NONE");
  out[0] = argument(&tc);
  out[1] = argument(NULL);
  BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 2, "`D`", "NULL");
  out[1].kind = TILEC_ADD;
  BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 2, "`D`", "NULL");
  out[1] = argument(&bad);
  bad = tensor(wide, 1, six, NULL);
  bad.dtype.bits = 64;
  BOTH_REFUSE(TILEC_TYPE_ERROR, 2, "E0557", "`f64`");
  bad = tensor(d, 1, five, NULL);
  BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 2, "`D`", "5");
  bad = tensor(d, 1, six, none); /* a stride of 0 */
  BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 2, "E0553", "`D`");
  out[1].kind = TILEC_ADD;
  BOTH_REFUSE(TILEC_ARGUMENT_ERROR, 2, "E0553", "`D`");
  out[1].kind = TILEC_TENSOR;
  bad = tensor(NULL, 1, six, NULL);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(program, in, 2, out, 2), "E0559", "`D`");
  bad = tensor((char*)d + 1, 1, five, NULL);
  bad.shape = six;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(program, in, 2, out, 2), "E0556", "`D`");
  bad = tensor(c, 1, six, NULL);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(program, in, 2, out, 2), "E0552", "`D`");
  tilec_program_destroy(program);
}

static void null_pointers_of_kernels(void) {
  tilec_program* program = compiled(text, NULL);
  tilec_kernel *kernel = NULL, *ports = NULL;
  tilec_port port;
  tilec_buffer* buffer = NULL;
  DLTensor ta = tensor(a, 1, six, NULL), tb = tensor(b, 1, six, NULL);
  tilec_argument in[2];
  const void* from[2] = {a, b};
  void* to[2] = {c, d};
  float block[16] = {0};
  in[0] = argument(&ta), in[1] = argument(&tb);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_specialize(NULL, in, 2, NULL, 0, &kernel), "E0554", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_specialize(program, in, 2, NULL, 0, NULL), "E0554", "`kernel` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_run(NULL, in, 2, NULL, 0), "E0554", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_infer(NULL, in, 2, &ports), "E0554", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_infer(program, in, 2, NULL), "E0554", "`ports` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_emit(NULL, "loops", in, 2, &buffer), "E0554", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_emit(program, NULL, in, 2, &buffer), "E0554", "`stage` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_emit(program, "loops", in, 2, NULL), "E0554", "`buffer` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_emit(program, "", in, 2, &buffer), "E0530", "``");
  EXPECT(kernel == NULL && ports == NULL && buffer == NULL);
  EXPECT(tilec_specialize(program, in, 2, NULL, 0, &kernel) == TILEC_OK &&
      tilec_infer(program, in, 2, &ports) == TILEC_OK);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_input(NULL, 0, &port), "E0554", "`kernel` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_input(kernel, 0, NULL), "E0554", "`port` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_input(kernel, 2, &port), "E0554", "no port 2");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_output(NULL, 0, &port), "E0554", "`kernel` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_output(kernel, 0, NULL), "E0554", "`port` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_output(kernel, (size_t)-1, &port), "E0554", "no port");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(NULL, from, to), "E0554", "`kernel` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(kernel, NULL, to), "E0554", "`inputs` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(kernel, from, NULL), "E0554", "`outputs` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(ports, from, to), "E0554", "ports only");
  tilec_buffer* text = NULL;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_xla_text(NULL, &text), "E0554", "`kernel` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_xla_text(kernel, NULL), "E0554", "`text` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_xla_text(ports, &text), "E0554", "ports only");
  EXPECT(text == NULL && tilec_xla_text(kernel, &text) == TILEC_OK && tilec_buffer_size(text) > 0);
  tilec_buffer_destroy(text);
  from[1] = NULL;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(kernel, from, to), "E0559", "`B`");
  from[1] = (char*)b + 2;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(kernel, from, to), "E0556", "`B`");
  from[1] = b, to[1] = NULL;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(kernel, from, to), "E0559", "`D`");
  to[1] = (char*)d + 3;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(kernel, from, to), "E0556", "`D`");
  to[0] = block, to[1] = block + 5;
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_kernel_run(kernel, from, to), "E0552", "`C` and `D`");
  EXPECT(block[0] == 0 && block[5] == 0); /* nothing was written */
  to[1] = block + 6;
  EXPECT(
      tilec_kernel_run(kernel, from, to) == TILEC_OK && block[5] == 7 && block[6] == -5 && tilec_last_error()[0] == 0);
  tilec_kernel_destroy(kernel);
  tilec_kernel_destroy(ports);
  tilec_program_destroy(program);
}

/* Every pointer of every function that is not looked at above. */
static void null_pointers_of_pairs_and_packages(void) {
  tilec_program *program = compiled(text, NULL), *made = NULL;
  tilec_kernel *kernel = NULL, *forward = NULL, *backward = NULL;
  tilec_buffer* buffer = NULL;
  DLTensor ta = tensor(a, 1, six, NULL), tb = tensor(b, 1, six, NULL);
  tilec_argument in[2];
  const void* from[2] = {a, b};
  void* to[2] = {c, d};
  int k;
  in[0] = argument(&ta), in[1] = argument(&tb);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_value_and_gradient(NULL, NULL, 0, NULL, 0, &made), "tilec_value_and_gradient",
      "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_value_and_gradient(program, NULL, 0, NULL, 0, NULL), "tilec_value_and_gradient",
      "`both` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_value_and_gradient(program, NULL, 1, NULL, 0, &made), "tilec_value_and_gradient",
      "`of` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(NULL, NULL, 0, NULL, 0, in, 2, NULL, 0, &forward, &backward), "tilec_vjp",
      "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(program, NULL, 1, NULL, 0, in, 2, NULL, 0, &forward, &backward), "tilec_vjp",
      "`of` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(program, NULL, 0, NULL, 1, in, 2, NULL, 0, &forward, &backward), "tilec_vjp",
      "`wrt` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(program, NULL, 0, NULL, 0, NULL, 2, NULL, 0, &forward, &backward),
      "tilec_vjp", "`arguments` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(program, NULL, 0, NULL, 0, in, 2, NULL, 1, &forward, &backward), "tilec_vjp",
      "`results` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(program, NULL, 0, NULL, 0, in, 2, NULL, 0, NULL, &backward), "tilec_vjp",
      "`forward` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_vjp(program, NULL, 0, NULL, 0, in, 2, NULL, 0, &forward, NULL), "tilec_vjp",
      "`backward` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_with_plan(NULL, "", 0, &made), "tilec_with_plan", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_with_plan(program, NULL, 1, &made), "tilec_with_plan", "`text` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_with_plan(program, "", 0, NULL), "tilec_with_plan", "`planned` is NULL");
  EXPECT(tilec_with_plan(program, NULL, 0, &made) == TILEC_OK); /* of which nothing is said */
  tilec_program_destroy(made);
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_save(NULL, "/tmp/none.tilec", in, 2), "tilec_save", "`program` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_save(program, NULL, in, 2), "tilec_save", "`path` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_save(program, "/tmp/none.tilec", NULL, 2), "tilec_save", "`arguments` is NULL");
  REFUSES(TILEC_DEVICE_ERROR, tilec_save(program, "", in, 2), "E0", "");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_save_vjp(NULL, NULL, 0, NULL, 0, "/tmp/none.tilec", in, 2), "tilec_save_vjp",
      "`program` is NULL");
  REFUSES(
      TILEC_ARGUMENT_ERROR, tilec_save_vjp(program, NULL, 0, NULL, 0, NULL, in, 2), "tilec_save_vjp", "`path` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_save_vjp(program, NULL, 1, NULL, 0, "/tmp/none.tilec", in, 2), "tilec_save_vjp",
      "`of` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_save_vjp(program, NULL, 0, NULL, 1, "/tmp/none.tilec", in, 2), "tilec_save_vjp",
      "`wrt` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_save_vjp(program, NULL, 0, NULL, 0, "/tmp/none.tilec", NULL, 2), "tilec_save_vjp",
      "`arguments` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_load(NULL, 0, 0, &kernel), "tilec_load", "`bytes` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_load("", 0, 0, NULL), "tilec_load", "`kernel` is NULL");
  REFUSES(TILEC_DEVICE_ERROR, tilec_load("", 0, 0, &kernel), "E0534", "package");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_load_vjp(NULL, 0, 0, &forward, &backward), "tilec_load_vjp", "`bytes` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_load_vjp("", 0, 0, NULL, &backward), "tilec_load_vjp", "`forward` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_load_vjp("", 0, 0, &forward, NULL), "tilec_load_vjp", "`backward` is NULL");
  REFUSES(TILEC_ARGUMENT_ERROR, tilec_load_vjp("", 0, -2, &forward, &backward), "tilec_load_vjp", "`threads` is -2");
  EXPECT(tilec_emit(program, "package", in, 2, &buffer) == TILEC_OK);
  REFUSES(TILEC_ARGUMENT_ERROR,
      tilec_load_vjp(tilec_buffer_data(buffer), tilec_buffer_size(buffer), 0, &forward, &backward), "E0539", "`add`");
  tilec_buffer_destroy(buffer);
  EXPECT(kernel == NULL && forward == NULL && backward == NULL);
  EXPECT(tilec_specialize(program, in, 2, NULL, 0, &kernel) == TILEC_OK);
  EXPECT(tilec_kernel_workspace(NULL) == 0 && tilec_kernel_device_workspace(NULL) == 0);
  for (k = 0; k < 2; ++k) {
    const char* name = k == 0 ? "tilec_kernel_run_in" : "tilec_kernel_run_on";
#define ANY_RUN(kernel, in, out) \
  (k == 0 ? tilec_kernel_run_in(kernel, in, out, NULL) : tilec_kernel_run_on(kernel, in, out, NULL, NULL))
    REFUSES(TILEC_ARGUMENT_ERROR, ANY_RUN(NULL, from, to), name, "`kernel` is NULL");
    REFUSES(TILEC_ARGUMENT_ERROR, ANY_RUN(kernel, NULL, to), name, "`inputs` is NULL");
    REFUSES(TILEC_ARGUMENT_ERROR, ANY_RUN(kernel, from, NULL), name, "`outputs` is NULL");
    EXPECT(ANY_RUN(kernel, from, to) == TILEC_OK);
  }
  EXPECT(tilec_xla_text(kernel, NULL) == TILEC_ARGUMENT_ERROR && tilec_stages(NULL) != NULL);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
}

/* A tensor without elements has no memory, nor has a list of none. */
static void null_pointers_where_there_is_nothing(void) {
  static const char nothing[] = "function () -> (Y) { Y[i: 3] = =(7); }";
  tilec_program *program = compiled(text, NULL), *constant = compiled(nothing, NULL);
  tilec_kernel* kernel = NULL;
  int64_t none[1] = {0};
  double y[3] = {0}; /* room for any type */
  DLTensor empty = tensor(NULL, 1, none, NULL);
  tilec_argument in[2], out[2];
  const void* from[2] = {NULL, NULL};
  void* to[2] = {NULL, NULL};
  in[0] = in[1] = out[0] = out[1] = argument(&empty);
  EXPECT(tilec_run(program, in, 2, out, 2) == TILEC_OK);
  EXPECT(
      tilec_specialize(program, in, 2, NULL, 0, &kernel) == TILEC_OK && tilec_kernel_run(kernel, from, to) == TILEC_OK);
  tilec_kernel_destroy(kernel);
  EXPECT(tilec_specialize(constant, NULL, 0, NULL, 0, &kernel) == TILEC_OK && tilec_kernel_input_count(kernel) == 0);
  to[0] = y;
  EXPECT(tilec_kernel_run(kernel, NULL, to) == TILEC_OK);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program), tilec_program_destroy(constant);
}

/* The result is that of memory apart, wherever an input lies. */
static void an_input_may_lie_under_an_output(const char* target) {
  static const char running[] = "function (X[N]) -> (Y) { Y[i: N] = +(X[j]), j <= i; }";
  tilec_options options = defaults();
  tilec_program* program = NULL;
  tilec_kernel *plain = NULL, *adding = NULL;
  float block[24];
  int64_t shape[1] = {8}, back[1] = {-2};
  DLTensor tx = tensor(block, 1, shape, back), ty = tensor(block, 1, shape, NULL);
  tilec_argument in = argument(&tx), out = argument(&ty);
  int x, y, k;
  options.target = target;
  EXPECT(tilec_compile(running, strlen(running), &options, &program) == TILEC_OK);
  EXPECT(tilec_specialize(program, &in, 1, &out, 1, &plain) == TILEC_OK);
  out.kind = TILEC_ADD;
  EXPECT(tilec_specialize(program, &in, 1, &out, 1, &adding) == TILEC_OK);
  for (x = 14; x < 24; ++x)
    for (y = 0; y <= 16; ++y) {
      const void* from[1];
      void* to[1];
      float sum = 0;
      from[0] = block + x, to[0] = block + y;
      for (k = 0; k < 24; ++k) block[k] = (float)k;
      EXPECT(tilec_kernel_run(plain, from, to) == TILEC_OK);
      for (k = 0; k < 8; ++k) {
        sum += (float)(x - 2 * k);
        EXPECT(block[y + k] == sum);
      }
      for (k = 0; k < 24; ++k) block[k] = (float)k;
      EXPECT(tilec_kernel_run(adding, from, to) == TILEC_OK);
      for (sum = 0, k = 0; k < 8; ++k) {
        sum += (float)(x - 2 * k);
        EXPECT(block[y + k] == (float)(y + k) + sum);
      }
    }
  tilec_kernel_destroy(plain);
  tilec_kernel_destroy(adding);
  tilec_program_destroy(program);
}

static void warnings_of_a_call_that_succeeds(void) {
  static const char doubtful[] = "function (A, B, C) -> (O) {\n  O = A > 0 ? B : C > 0 ? A : B;\n}\n"; /* W0101 */
  tilec_program* program = NULL;
  tilec_diagnostic diagnostic;
  EXPECT(tilec_compile(doubtful, strlen(doubtful), NULL, &program) == TILEC_OK && tilec_last_error()[0] == 0);
  EXPECT(tilec_last_diagnostic_count() == 1 && tilec_last_diagnostic(0, &diagnostic) == TILEC_OK);
  EXPECT(diagnostic.severity == TILEC_WARNING && strcmp(diagnostic.code, "W0101") == 0 && diagnostic.line == 2);
  EXPECT(
      strstr(tilec_last_diagnostic_text(0), "<text>:2:") != NULL && strstr(tilec_last_diagnostic_text(0), "^") != NULL);
  tilec_program_destroy(program);
}

int main(void) {
  null_pointers_of_questions();
  null_pointers_of_compile();
  null_pointers_of_files();
  a_program_outlives_its_file();
  warnings_of_a_file();
  options_of_every_size();
  options_that_mean_nothing();
  names_that_are_given_twice();
  batches();
  numbers_that_a_type_does_not_have();
  null_pointers_of_derivatives();
  arguments_of_every_kind();
  numbers_of_every_type();
  results_of_every_kind();
  null_pointers_of_kernels();
  null_pointers_of_pairs_and_packages();
  null_pointers_where_there_is_nothing();
  an_input_may_lie_under_an_output("cpu");
  an_input_may_lie_under_an_output("reference");
  warnings_of_a_call_that_succeeds();
  printf("%d expectations failed\n", failures);
  return failures != 0;
}
