/* The C API from C11: compile, infer, specialise, run, gradient, emit, and what is said of every kind of mistake. */
#include <math.h>
#include <stdlib.h>

#include "expect.h"

static const char matmul[] = "function matmul(A[M, K], B[K, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n";

static float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1};
static int64_t shape_a[2] = {2, 3}, shape_b[2] = {3, 2}, shape_c[2] = {2, 2};

static void a_product_runs(const char* target) {
  tilec_program* program = compiled(matmul, target);
  tilec_kernel* kernel = NULL;
  tilec_port port;
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL);
  tilec_argument arguments[2];
  float c[4] = {0};
  const void* in[2];
  void* out[1];
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  EXPECT(strcmp(tilec_program_name(program), "matmul") == 0);
  EXPECT(tilec_input_count(program) == 2 && strcmp(tilec_input_name(program, 1), "B") == 0 && tilec_input_name(program, 2) == NULL);
  EXPECT(tilec_output_count(program) == 1 && strcmp(tilec_output_name(program, 0), "C") == 0);
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_OK);
  EXPECT(tilec_kernel_output(kernel, 0, &port) == TILEC_OK && port.ndim == 2 && port.shape[1] == 2 && port.strides[0] == 2 && port.dtype.bits == 32);
  EXPECT(tilec_kernel_output(kernel, 1, &port) == TILEC_ARGUMENT_ERROR);
  tilec_program_destroy(program); /* the kernel lives on */
  in[0] = a;
  in[1] = b;
  out[0] = c;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK);
  EXPECT(c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
  tilec_kernel_destroy(kernel);
}

static void strides_may_be_anything(void) {
  tilec_program* program = compiled(matmul, NULL);
  int64_t backwards[2] = {-3, -1}, spread[2] = {0, 0}, transposed[2] = {1, 2};
  float one = 1, c[4] = {0};
  DLTensor ta = tensor(a + 5, 2, shape_a, backwards), tb = tensor(&one, 2, shape_b, spread), tc = tensor(c, 2, shape_c, transposed);
  tilec_argument arguments[2], result;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  result = argument(&tc);
  EXPECT(tilec_run(program, arguments, 2, &result, 1) == TILEC_OK);
  EXPECT(c[0] == 15 && c[1] == 6 && c[2] == 15 && c[3] == 6); /* column by column */
  tilec_program_destroy(program);
}

static void a_gradient_is_a_program(void) {
  tilec_program *program = compiled(matmul, NULL), *gradient = NULL;
  const char* wrt[1] = {"A"};
  float dc[4] = {1, 2, 3, 4}, da[6] = {0};
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tdc = tensor(dc, 2, shape_c, NULL), tda = tensor(da, 2, shape_a, NULL);
  tilec_argument arguments[3], result;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  arguments[2] = argument(&tdc);
  arguments[2].name = "dC";
  result = argument(&tda);
  EXPECT(tilec_gradient(program, NULL, 0, wrt, 1, &gradient) == TILEC_OK);
  EXPECT(tilec_input_count(gradient) == 3 && strcmp(tilec_input_name(gradient, 2), "dC") == 0);
  EXPECT(tilec_output_count(gradient) == 1 && strcmp(tilec_output_name(gradient, 0), "dA") == 0);
  EXPECT(tilec_run(gradient, arguments, 3, &result, 1) == TILEC_OK);
  EXPECT(da[0] == 1 && da[1] == 2 && da[2] == 3 && da[3] == 3 && da[4] == 4 && da[5] == 7);
  tilec_program_destroy(program);
  tilec_program_destroy(gradient);
}

static void a_gradient_has_a_gradient(void) {
  tilec_program *program = compiled("function (X[N]) -> (L) { L[] = +(X[i] * X[i] * X[i]); }", NULL), *first = NULL, *second = NULL, *none = NULL;
  const char *of[1] = {"dX"}, *wrt[1] = {"X"}, *old[1] = {"L"};
  int64_t shape[1] = {6};
  float one = 1, u[6] = {1, 0, 2, 0, 1, 0}, dx[6] = {0};
  DLTensor tx = tensor(a, 1, shape, NULL), tl = tensor(&one, 0, NULL, NULL), tu = tensor(u, 1, shape, NULL), tdx = tensor(dx, 1, shape, NULL);
  tilec_argument arguments[3], result;
  arguments[0] = argument(&tx);
  arguments[1] = argument(&tl);
  arguments[2] = argument(&tu);
  result = argument(&tdx);
  EXPECT(tilec_gradient(program, NULL, 0, NULL, 0, &first) == TILEC_OK);
  EXPECT(tilec_gradient(first, of, 1, wrt, 1, &second) == TILEC_OK);
  EXPECT(tilec_input_count(second) == 3 && strcmp(tilec_input_name(second, 1), "dL") == 0 && strcmp(tilec_input_name(second, 2), "ddX") == 0);
  EXPECT(tilec_output_count(second) == 1 && strcmp(tilec_output_name(second, 0), "dX") == 0);
  EXPECT(tilec_run(second, arguments, 3, &result, 1) == TILEC_OK);
  EXPECT(dx[0] == 6 * a[0] && dx[1] == 0 && dx[2] == 12 * a[2] && dx[4] == 6 * a[4]);
  EXPECT(tilec_gradient(first, old, 1, NULL, 0, &none) == TILEC_PROGRAM_ERROR && strstr(tilec_last_error(), "E0301") != NULL);
  tilec_program_destroy(first); /* each is on its own */
  tilec_program_destroy(program);
  tilec_program_destroy(second);
}

static void results_can_be_added_to(const char* target) {
  tilec_program* program = compiled(matmul, target);
  tilec_kernel* kernel = NULL;
  int64_t backwards[2] = {-2, -1};
  float c[4] = {1, 2, 3, 4};
  const void* in[2];
  void* out[1];
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tc = tensor(c + 3, 2, shape_c, backwards);
  tilec_argument arguments[2], result;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  result = argument(&tc);
  result.kind = TILEC_ADD;
  EXPECT(tilec_run(program, arguments, 2, &result, 1) == TILEC_OK);
  EXPECT(c[3] == 8 && c[2] == 8 && c[1] == 12 && c[0] == 12); /* 4 5 10 11 from the last element on */
  EXPECT(tilec_specialize(program, arguments, 2, &result, 1, &kernel) == TILEC_OK);
  EXPECT(tilec_kernel_input_count(kernel) == 2 && tilec_kernel_output_count(kernel) == 1);
  in[0] = a;
  in[1] = b;
  out[0] = c + 3;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && c[3] == 12 && c[0] == 23);
  arguments[0].kind = TILEC_ADD;
  EXPECT(tilec_run(program, arguments, 2, &result, 1) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "`A`") != NULL);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
}

static void shapes_can_be_asked_for(void) {
  tilec_program* program = compiled("function (X, S) -> (Y) { Y = X * S; }", NULL);
  tilec_kernel* ports = NULL;
  tilec_port port;
  DLTensor tx = tensor(a, 2, shape_a, NULL);
  tilec_argument arguments[2];
  const void* in[2] = {a, a};
  void* out[1] = {b};
  arguments[0] = argument(&tx);
  memset(&arguments[1], 0, sizeof arguments[1]);
  arguments[1].kind = TILEC_REAL;
  arguments[1].real = 0.5;
  EXPECT(tilec_infer(program, arguments, 2, &ports) == TILEC_OK);
  EXPECT(tilec_kernel_output(ports, 0, &port) == TILEC_OK && port.ndim == 2 && port.shape[0] == 2 && port.dtype.code == kDLFloat && port.dtype.bits == 32);
  EXPECT(tilec_kernel_run(ports, in, out) == TILEC_ARGUMENT_ERROR);
  tilec_kernel_destroy(ports);
  tilec_program_destroy(program);
}

static void the_library_in_tile_can_be_read(void) {
  size_t count = 0;
  const char* family;
  while ((family = tilec_standard_file_name(count)) != NULL) {
    tilec_file* file = NULL;
    char name[128];
    const char* text = tilec_standard_file_text(count++);
    EXPECT(text != NULL && strstr(text, "\n") != NULL);
    snprintf(name, sizeof name, "std/%s.tile", family); /* of a part of std/, what it imports are parts too */
    EXPECT(tilec_parse(text, strlen(text), name, NULL, 0, &file) == TILEC_OK);
    tilec_file_destroy(file);
  }
  EXPECT(count > 10 && tilec_standard_file_text(count) == NULL && tilec_standard_file_name((size_t)-1) == NULL);
}

static void stages_can_be_read(void) {
  tilec_program* program = compiled(matmul, NULL);
  tilec_buffer* buffer = NULL;
  EXPECT(tilec_emit(program, "gradient", NULL, 0, &buffer) == TILEC_OK);
  EXPECT(buffer != NULL && strstr(tilec_buffer_data(buffer), "dA[i, k: M, K] = +(") != NULL && strlen(tilec_buffer_data(buffer)) == tilec_buffer_size(buffer));
  tilec_buffer_destroy(buffer);
  size_t count = 0;
  const tilec_stage* stages = tilec_stages(&count);
  int binary = 0;
  for (size_t k = 0; k < count; ++k) binary += !stages[k].is_text && strcmp(stages[k].name, "package") == 0;
  EXPECT(binary == 1 && tilec_stages(NULL) == stages);
  EXPECT(tilec_emit(program, "grad", NULL, 0, &buffer) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_emit(program, "loops", NULL, 0, &buffer) == TILEC_ARGUMENT_ERROR); /* sizes are missing */
  tilec_program_destroy(program);
}

static int goes_on(const tilec_tune_progress* now, void* asked) {
  EXPECT(now->elapsed >= 0 && now->seconds == 5 && now->best > 0 && now->best <= now->first);
  return ++*(int*)asked < 200;
}

static void plans_are_found(void) {
  static const char slow[] = "group C\n  contract C  block 1x1  lanes 1\n";
  int asked = 0;
  tilec_program *chosen = compiled(matmul, NULL), *program = NULL, *tuned = NULL;
  tilec_tune_options options = {.size = sizeof options, .seconds = 5, .goes_on = goes_on, .user = &asked};
  float c[4] = {0};
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tc = tensor(c, 2, shape_c, NULL);
  tilec_argument arguments[2], result;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  result = argument(&tc);
  EXPECT(tilec_with_plan(chosen, slow, strlen(slow), &program) == TILEC_OK);
  EXPECT(tilec_tune(program, arguments, 2, &options, &tuned) == TILEC_OK && asked > 0);
  EXPECT(tilec_run(tuned, arguments, 2, &result, 1) == TILEC_OK && c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
  EXPECT(tilec_tune(program, arguments, 1, &options, &tuned) != TILEC_OK);
  EXPECT(tilec_tune(NULL, arguments, 2, &options, &tuned) == TILEC_ARGUMENT_ERROR && tilec_tune(program, arguments, 2, &options, NULL) == TILEC_ARGUMENT_ERROR);
  options.seconds = -1;
  EXPECT(tilec_tune(program, arguments, 2, &options, &tuned) == TILEC_ARGUMENT_ERROR);
  tilec_program_destroy(tuned);
  tilec_program_destroy(program);
  tilec_program_destroy(chosen);
}

static void plans_are_followed(void) {
  static const char small[] = "group C\n  contract C  block 1x1  lanes 1\n", wrong[] = "no copy\ninline C\n";
  tilec_program *program = compiled(matmul, NULL), *planned = NULL, *again = NULL, *refused = NULL;
  tilec_options options = {.size = sizeof options, .plan = wrong};
  tilec_buffer *chosen = NULL, *given = NULL, *same = NULL;
  float c[4] = {0};
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tc = tensor(c, 2, shape_c, NULL);
  tilec_argument arguments[2], result;
  tilec_diagnostic diagnostic;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  result = argument(&tc);
  EXPECT(tilec_emit(program, "plan", arguments, 2, &chosen) == TILEC_OK);
  EXPECT(tilec_with_plan(program, tilec_buffer_data(chosen), tilec_buffer_size(chosen), &again) == TILEC_OK);
  EXPECT(tilec_emit(again, "plan", arguments, 2, &same) == TILEC_OK && strcmp(tilec_buffer_data(same), tilec_buffer_data(chosen)) == 0);
  EXPECT(tilec_with_plan(program, small, strlen(small), &planned) == TILEC_OK);
  EXPECT(tilec_emit(planned, "plan", arguments, 2, &given) == TILEC_OK && strstr(tilec_buffer_data(given), "block 1x1  lanes 1") != NULL);
  tilec_program_destroy(program);
  EXPECT(tilec_run(planned, arguments, 2, &result, 1) == TILEC_OK && c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
  EXPECT(tilec_compile(matmul, strlen(matmul), &options, &refused) == TILEC_OK);
  EXPECT(tilec_run(refused, arguments, 2, &result, 1) == TILEC_PROGRAM_ERROR);
  EXPECT(tilec_last_diagnostic(0, &diagnostic) == TILEC_OK && strcmp(diagnostic.code, "E0561") == 0 && strcmp(diagnostic.file, "<plan>") == 0 && diagnostic.line == 2);
  EXPECT(tilec_with_plan(planned, small, strlen(small), NULL) == TILEC_ARGUMENT_ERROR && tilec_with_plan(NULL, small, strlen(small), &refused) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_with_plan(planned, NULL, 3, &refused) == TILEC_ARGUMENT_ERROR);
  tilec_buffer_destroy(chosen);
  tilec_buffer_destroy(given);
  tilec_buffer_destroy(same);
  tilec_program_destroy(planned);
  tilec_program_destroy(again);
  tilec_program_destroy(refused);
}

static void packages_run(void) {
  tilec_program* program = compiled(matmul, NULL);
  tilec_buffer* buffer = NULL;
  tilec_kernel *kernel = NULL, *damaged = NULL;
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL);
  tilec_argument arguments[2];
  float saved[8] = {0}, direct[8] = {0};
  const void* in[2] = {a, b};
  void* out[1] = {saved};
  char* bytes;
  size_t size;
  arguments[0] = argument(&ta), arguments[1] = argument(&tb);
  EXPECT(tilec_emit(program, "package", arguments, 2, &buffer) == TILEC_OK);
  size = tilec_buffer_size(buffer);
  bytes = malloc(size);
  memcpy(bytes, tilec_buffer_data(buffer), size);
  tilec_buffer_destroy(buffer);
  EXPECT(tilec_load(bytes, size, 1, &kernel) == TILEC_OK);
  EXPECT(tilec_kernel_input_count(kernel) == 2 && tilec_kernel_output_count(kernel) == 1);
  bytes[size / 2] ^= 1;
  EXPECT(tilec_load(bytes, size, 1, &damaged) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "E0534") != NULL && damaged == NULL);
  EXPECT(tilec_load(bytes, size - 1, 1, &damaged) == TILEC_DEVICE_ERROR);
  EXPECT(tilec_load(NULL, size, 1, &damaged) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_load(bytes, size, -1, &damaged) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_load(bytes, size, 1, NULL) == TILEC_ARGUMENT_ERROR);
  free(bytes);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK);
  tilec_kernel_destroy(kernel);
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_OK);
  out[0] = direct;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && memcmp(saved, direct, sizeof saved) == 0);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
}

/* Memory for the ports of a kernel, by name: what another kernel made has its place already. */
struct named { char name[32]; float data[64]; };
static int named_count;
static struct named everything[16];

static float* memory_of(const char* name) {
  int k;
  for (k = 0; k < named_count; ++k)
    if (strcmp(everything[k].name, name) == 0) return everything[k].data;
  snprintf(everything[named_count].name, sizeof everything[named_count].name, "%s", name);
  return everything[named_count++].data;
}

static void run_by_name(const tilec_kernel* kernel) {
  const void* in[16];
  void* out[16];
  tilec_port port;
  size_t k;
  for (k = 0; k < tilec_kernel_input_count(kernel); ++k) {
    EXPECT(tilec_kernel_input(kernel, k, &port) == TILEC_OK);
    in[k] = memory_of(port.name);
  }
  for (k = 0; k < tilec_kernel_output_count(kernel); ++k) {
    EXPECT(tilec_kernel_output(kernel, k, &port) == TILEC_OK);
    out[k] = memory_of(port.name);
  }
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK);
}

static void forward_and_backward_are_a_pair(void) {
  static const char text[] = "function f(X[N]) -> (L) { E = exp(X * 2.0); L[] = +(E[i] * E[i]); }";
  tilec_program *program = compiled(text, NULL), *both = NULL, *again = NULL;
  tilec_kernel *forward = NULL, *backward = NULL, *kernel = NULL;
  static int64_t shape[1] = {5};
  DLTensor tx = tensor(memory_of("X"), 1, shape, NULL), tl;
  tilec_argument arguments[2];
  int k;
  double sum = 0;
  for (k = 0; k < 5; ++k) memory_of("X")[k] = 0.1f * (float)k, sum += exp(0.4 * k);
  arguments[0] = argument(&tx);
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, arguments, 1, &forward, &backward) == TILEC_OK);
  run_by_name(forward);
  EXPECT(fabs((double)memory_of("L")[0] - sum) < 1e-4);
  memory_of("dL")[0] = 3;
  run_by_name(backward);
  for (k = 0; k < 5; ++k) EXPECT(fabs((double)memory_of("dX")[k] - 12 * exp(0.4 * k)) < 1e-3);
  EXPECT(tilec_value_and_gradient(program, NULL, 0, NULL, 0, &both) == TILEC_OK && tilec_output_count(both) == 2 && strcmp(tilec_output_name(both, 1), "dX") == 0);
  tl = tensor(memory_of("dL"), 0, NULL, NULL);
  arguments[1] = argument(&tl);
  EXPECT(tilec_specialize(both, arguments, 2, NULL, 0, &kernel) == TILEC_OK);
  memory_of("L")[0] = 0, memory_of("dX")[4] = 0;
  run_by_name(kernel);
  EXPECT(fabs((double)memory_of("L")[0] - sum) < 1e-4 && fabs((double)memory_of("dX")[4] - 12 * exp(1.6)) < 1e-3);
  EXPECT(tilec_gradient(both, NULL, 0, NULL, 0, &again) == TILEC_ARGUMENT_ERROR && again == NULL);
  EXPECT(tilec_vjp(NULL, NULL, 0, NULL, 0, arguments, 1, &forward, &backward) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, arguments, 1, NULL, &backward) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_vjp(program, NULL, 1, NULL, 0, arguments, 1, &forward, &backward) == TILEC_ARGUMENT_ERROR);
  tilec_kernel_destroy(forward), tilec_kernel_destroy(backward), tilec_kernel_destroy(kernel);
  tilec_program_destroy(both), tilec_program_destroy(program);
}

static void a_run_may_be_given_its_memory(void) {
  static const char text[] = "function f(A[N, N]) -> (C) { B[i, j: N, N] = +(A[i, k] * A[k, j]); D[i, j: N, N] = +(B[i, k] * A[k, j]); C[i, j: N, N] = +(D[i, k] * B[k, j]); }";
  static float big[40 * 40], wanted[40 * 40], got[40 * 40];
  static int64_t shape[2] = {40, 40};
  tilec_program* program = compiled(text, NULL);
  tilec_kernel* kernel = NULL;
  DLTensor t = tensor(big, 2, shape, NULL);
  const tilec_argument given = argument(&t);
  const void* in[1] = {big};
  void* out[1] = {wanted};
  char* memory;
  size_t bytes;
  int k;
  for (k = 0; k < 1600; ++k) big[k] = 0.01f * (float)(k % 37);
  EXPECT(tilec_specialize(program, &given, 1, NULL, 0, &kernel) == TILEC_OK);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK);
  bytes = tilec_kernel_workspace(kernel);
  EXPECT(bytes >= 2 * 40 * 40 * sizeof(float) && tilec_kernel_workspace(NULL) == 0);
  memory = aligned_alloc(64, bytes + 64);
  memset(memory, 0x5a, bytes + 64);
  out[0] = got;
  EXPECT(tilec_kernel_run_in(kernel, in, out, memory) == TILEC_OK && memcmp(got, wanted, sizeof got) == 0);
  for (k = 0; k < 64; ++k) EXPECT(memory[bytes + (size_t)k] == 0x5a);
  EXPECT(tilec_kernel_run_in(kernel, in, out, memory + 4) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "workspace") != NULL);
  out[0] = memory;
  EXPECT(tilec_kernel_run_in(kernel, in, out, memory) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "shares memory with `C`") != NULL);
  out[0] = got;
  EXPECT(tilec_kernel_run_in(kernel, in, out, NULL) == TILEC_OK);
  EXPECT(tilec_kernel_device_workspace(kernel) == 0 && tilec_kernel_device_workspace(NULL) == 0);
  EXPECT(tilec_kernel_run_on(kernel, in, out, NULL, NULL) != TILEC_OK && strstr(tilec_last_error(), "runs on the CPU") != NULL);
  EXPECT(tilec_kernel_run_on(NULL, in, out, NULL, NULL) == TILEC_ARGUMENT_ERROR);
  free(memory);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
}

static void mistakes_are_named(void) {
  static const char wrong[] = "function f(A[M, N]) -> (B) {\n  B[i: M] = +(A[i, j, k]);\n}\n";
  tilec_program* program = NULL;
  tilec_kernel* kernel = NULL;
  tilec_diagnostic d;
  tilec_options options;
  DLTensor ta = tensor(a, 2, shape_a, NULL);
  tilec_argument arguments[3];
  EXPECT(tilec_compile(wrong, strlen(wrong), NULL, &program) == TILEC_PROGRAM_ERROR && program == NULL);
  EXPECT(strstr(tilec_last_error(), "E0201") != NULL);
  EXPECT(tilec_last_diagnostic_count() >= 1 && tilec_last_diagnostic(0, &d) == TILEC_OK);
  EXPECT(d.severity == TILEC_ERROR && strcmp(d.code, "E0201") == 0 && d.line == 2 && strcmp(d.file, "<text>") == 0);
  EXPECT(tilec_last_diagnostic(99, &d) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_compile("\xff\xfe", 2, NULL, &program) == TILEC_PROGRAM_ERROR);
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.target = "abacus";
  EXPECT(tilec_compile(matmul, strlen(matmul), &options, &program) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "abacus") != NULL);
  program = compiled(matmul, NULL);
  arguments[0] = arguments[1] = arguments[2] = argument(&ta);
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_ARGUMENT_ERROR); /* K is 3 and 2 */
  EXPECT(tilec_specialize(program, arguments, 1, NULL, 0, &kernel) == TILEC_TYPE_ERROR);     /* B is missing */
  EXPECT(tilec_specialize(program, arguments, 3, NULL, 0, &kernel) != TILEC_OK);
  ta.device.device_type = kDLCUDA;
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "E0518") != NULL);
  arguments[0].tensor = NULL;
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_ARGUMENT_ERROR && kernel == NULL);
  tilec_program_destroy(program);
  tilec_program_destroy(NULL);
  tilec_kernel_destroy(NULL);
  tilec_buffer_destroy(NULL);
}

int main(void) {
  EXPECT(tilec_version() == TILEC_VERSION_MAJOR * 10000 + TILEC_VERSION_MINOR * 100 + TILEC_VERSION_PATCH);
  EXPECT(tilec_function_count(matmul, strlen(matmul)) == 1 && strcmp(tilec_function_name(matmul, strlen(matmul), 0), "matmul") == 0);
  a_product_runs("cpu");
  a_product_runs("reference");
  strides_may_be_anything();
  a_gradient_is_a_program();
  a_gradient_has_a_gradient();
  results_can_be_added_to("cpu");
  results_can_be_added_to("reference");
  shapes_can_be_asked_for();
  the_library_in_tile_can_be_read();
  stages_can_be_read();
  plans_are_followed();
  plans_are_found();
  packages_run();
  a_run_may_be_given_its_memory();
  forward_and_backward_are_a_pair();
  mistakes_are_named();
  printf("%d expectations failed\n", failures);
  return failures != 0;
}
