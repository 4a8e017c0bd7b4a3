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
  EXPECT(tilec_input_count(program) == 2 && strcmp(tilec_input_name(program, 1), "B") == 0 &&
      tilec_input_name(program, 2) == NULL);
  EXPECT(tilec_output_count(program) == 1 && strcmp(tilec_output_name(program, 0), "C") == 0);
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_OK);
  EXPECT(tilec_kernel_output(kernel, 0, &port) == TILEC_OK && port.ndim == 2 && port.shape[1] == 2 &&
      port.strides[0] == 2 && port.dtype.bits == 32);
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
  DLTensor ta = tensor(a + 5, 2, shape_a, backwards), tb = tensor(&one, 2, shape_b, spread),
           tc = tensor(c, 2, shape_c, transposed);
  tilec_argument arguments[2], result;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  result = argument(&tc);
  EXPECT(tilec_run(program, arguments, 2, &result, 1) == TILEC_OK);
  EXPECT(c[0] == 15 && c[1] == 6 && c[2] == 15 && c[3] == 6); /* column by column */
  tilec_program_destroy(program);
}

static void what_has_a_default_may_be_left_out(void) {
  tilec_program *program = compiled(
                    "function f(X[M, N], G[N] = 1, S[] = 3) -> (Y) { Y[i, j: M, N] = =(X[i, j] * G[j] * S[]); }", NULL),
                *gradient = NULL;
  float y[6] = {0}, g[3] = {1, 0, 2};
  int64_t shape_g[1] = {3};
  const char* wrt[1] = {"G"};
  DLTensor tx = tensor(a, 2, shape_a, NULL), tg = tensor(g, 1, shape_g, NULL), ty = tensor(y, 2, shape_a, NULL);
  tilec_argument arguments[2], result;
  tilec_kernel* kernel = NULL;
  arguments[0] = argument(&tx);
  arguments[1] = argument(&tg);
  result = argument(&ty);
  EXPECT(!tilec_input_is_optional(program, 0) && tilec_input_is_optional(program, 1) &&
      tilec_input_is_optional(program, 2) && !tilec_input_is_optional(program, 3));
  EXPECT(tilec_run(program, arguments, 1, &result, 1) == TILEC_OK);
  EXPECT(y[1] == 3 * a[1] && y[5] == 3 * a[5]);
  EXPECT(tilec_run(program, arguments, 2, &result, 1) == TILEC_OK);
  EXPECT(y[1] == 0 && y[5] == 6 * a[5]);
  EXPECT(tilec_gradient(program, NULL, 0, wrt, 1, &gradient) == TILEC_OK);
  EXPECT(tilec_specialize(gradient, arguments, 1, NULL, 0, &kernel) != TILEC_OK);
  tilec_program_destroy(gradient);
  tilec_program_destroy(program);
}

static void the_cotangent_is_the_last_argument_whatever_is_left_out(void) {
  tilec_program *program = compiled(
                    "function f(X[M, N], G[N] = 1, S[] = 3) -> (Y) { Y[i, j: M, N] = =(X[i, j] * G[j] * S[]); }", NULL),
                *gradient = NULL;
  float dy[6] = {1, 2, 3, 4, 5, 6}, dx[6] = {0}, g[3] = {1, 0, 2}, dg[3] = {0};
  int64_t shape_g[1] = {3};
  DLTensor tx = tensor(a, 2, shape_a, NULL), tg = tensor(g, 1, shape_g, NULL), tdy = tensor(dy, 2, shape_a, NULL),
           tdx = tensor(dx, 2, shape_a, NULL), tdg = tensor(dg, 1, shape_g, NULL);
  tilec_argument arguments[3], results[2];
  EXPECT(tilec_gradient(program, NULL, 0, NULL, 0, &gradient) == TILEC_OK);
  EXPECT(tilec_input_count(gradient) == 4); /* X, G, S, dY */
  EXPECT(tilec_input_at(gradient, 2, 0) == 0 && tilec_input_at(gradient, 2, 1) == 3 &&
      tilec_input_at(gradient, 2, 2) == 4);
  EXPECT(tilec_input_at(gradient, 3, 1) == 1 && tilec_input_at(gradient, 3, 2) == 3 &&
      tilec_input_at(gradient, 1, 0) == 0 && tilec_input_at(program, 2, 1) == 1 && tilec_input_at(NULL, 1, 0) == 0);
  arguments[0] = argument(&tx);
  arguments[1] = argument(&tdy);
  results[0] = argument(&tdx);
  EXPECT(tilec_run(gradient, arguments, 2, results, 1) == TILEC_OK);
  EXPECT(dx[1] == 6 && dx[5] == 18);
  arguments[1] = argument(&tg);
  arguments[2] = argument(&tdy);
  results[1] = argument(&tdg);
  EXPECT(tilec_run(gradient, arguments, 3, results, 2) == TILEC_OK);
  EXPECT(dx[1] == 0 && dx[5] == 36 && dg[0] == 3 * (a[0] * 1 + a[3] * 4));
  arguments[2].name = "dY"; /* so the two in front are inputs */
  EXPECT(tilec_run(gradient, arguments, 3, results, 2) == TILEC_OK);
  EXPECT(tilec_run(gradient, arguments, 1, results, 1) != TILEC_OK);
  tilec_program_destroy(gradient);
  tilec_program_destroy(program);
}

static void a_gradient_is_a_program(void) {
  tilec_program *program = compiled(matmul, NULL), *gradient = NULL;
  const char* wrt[1] = {"A"};
  float dc[4] = {1, 2, 3, 4}, da[6] = {0};
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tdc = tensor(dc, 2, shape_c, NULL),
           tda = tensor(da, 2, shape_a, NULL);
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
  tilec_program *program = compiled("function (X[N]) -> (L) { L[] = +(X[i] * X[i] * X[i]); }", NULL), *first = NULL,
                *second = NULL, *none = NULL;
  const char *of[1] = {"dX"}, *wrt[1] = {"X"}, *old[1] = {"L"};
  int64_t shape[1] = {6};
  float one = 1, u[6] = {1, 0, 2, 0, 1, 0}, dx[6] = {0};
  DLTensor tx = tensor(a, 1, shape, NULL), tl = tensor(&one, 0, NULL, NULL), tu = tensor(u, 1, shape, NULL),
           tdx = tensor(dx, 1, shape, NULL);
  tilec_argument arguments[3], result;
  arguments[0] = argument(&tx);
  arguments[1] = argument(&tl);
  arguments[2] = argument(&tu);
  result = argument(&tdx);
  EXPECT(tilec_gradient(program, NULL, 0, NULL, 0, &first) == TILEC_OK);
  EXPECT(tilec_gradient(first, of, 1, wrt, 1, &second) == TILEC_OK);
  EXPECT(tilec_input_count(second) == 3 && strcmp(tilec_input_name(second, 1), "dL") == 0 &&
      strcmp(tilec_input_name(second, 2), "ddX") == 0);
  EXPECT(tilec_output_count(second) == 1 && strcmp(tilec_output_name(second, 0), "dX") == 0);
  EXPECT(tilec_run(second, arguments, 3, &result, 1) == TILEC_OK);
  EXPECT(dx[0] == 6 * a[0] && dx[1] == 0 && dx[2] == 12 * a[2] && dx[4] == 6 * a[4]);
  EXPECT(tilec_gradient(first, old, 1, NULL, 0, &none) == TILEC_PROGRAM_ERROR &&
      strstr(tilec_last_error(), "E0301") != NULL);
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
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL),
           tc = tensor(c + 3, 2, shape_c, backwards);
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
  EXPECT(tilec_run(program, arguments, 2, &result, 1) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`A`") != NULL);
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
  EXPECT(tilec_kernel_output(ports, 0, &port) == TILEC_OK && port.ndim == 2 && port.shape[0] == 2 &&
      port.dtype.code == kDLFloat && port.dtype.bits == 32);
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
  EXPECT(buffer != NULL && strstr(tilec_buffer_data(buffer), "dA[i, k: M, K] = +(") != NULL &&
      strlen(tilec_buffer_data(buffer)) == tilec_buffer_size(buffer));
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
  EXPECT(tilec_tune(NULL, arguments, 2, &options, &tuned) == TILEC_ARGUMENT_ERROR &&
      tilec_tune(program, arguments, 2, &options, NULL) == TILEC_ARGUMENT_ERROR);
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
  EXPECT(tilec_emit(again, "plan", arguments, 2, &same) == TILEC_OK &&
      strcmp(tilec_buffer_data(same), tilec_buffer_data(chosen)) == 0);
  EXPECT(tilec_with_plan(program, small, strlen(small), &planned) == TILEC_OK);
  EXPECT(tilec_emit(planned, "plan", arguments, 2, &given) == TILEC_OK &&
      strstr(tilec_buffer_data(given), "block 1x1  lanes 1") != NULL);
  tilec_program_destroy(program);
  EXPECT(
      tilec_run(planned, arguments, 2, &result, 1) == TILEC_OK && c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
  EXPECT(tilec_compile(matmul, strlen(matmul), &options, &refused) == TILEC_OK);
  EXPECT(tilec_run(refused, arguments, 2, &result, 1) == TILEC_PROGRAM_ERROR);
  EXPECT(tilec_last_diagnostic(0, &diagnostic) == TILEC_OK && strcmp(diagnostic.code, "E0561") == 0 &&
      strcmp(diagnostic.file, "<plan>") == 0 && diagnostic.line == 2);
  EXPECT(tilec_with_plan(planned, small, strlen(small), NULL) == TILEC_ARGUMENT_ERROR &&
      tilec_with_plan(NULL, small, strlen(small), &refused) == TILEC_ARGUMENT_ERROR);
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
  EXPECT(tilec_load(bytes, size, 1, &damaged) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "E0534") != NULL &&
      damaged == NULL);
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
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, arguments, 1, NULL, 0, &forward, &backward) == TILEC_OK);
  run_by_name(forward);
  EXPECT(fabs((double)memory_of("L")[0] - sum) < 1e-4);
  memory_of("dL")[0] = 3;
  run_by_name(backward);
  for (k = 0; k < 5; ++k) EXPECT(fabs((double)memory_of("dX")[k] - 12 * exp(0.4 * k)) < 1e-3);
  EXPECT(tilec_value_and_gradient(program, NULL, 0, NULL, 0, &both) == TILEC_OK && tilec_output_count(both) == 2 &&
      strcmp(tilec_output_name(both, 1), "dX") == 0);
  tl = tensor(memory_of("dL"), 0, NULL, NULL);
  arguments[1] = argument(&tl);
  EXPECT(tilec_specialize(both, arguments, 2, NULL, 0, &kernel) == TILEC_OK);
  memory_of("L")[0] = 0, memory_of("dX")[4] = 0;
  run_by_name(kernel);
  EXPECT(fabs((double)memory_of("L")[0] - sum) < 1e-4 && fabs((double)memory_of("dX")[4] - 12 * exp(1.6)) < 1e-3);
  EXPECT(tilec_gradient(both, NULL, 0, NULL, 0, &again) == TILEC_ARGUMENT_ERROR && again == NULL);
  EXPECT(tilec_vjp(NULL, NULL, 0, NULL, 0, arguments, 1, NULL, 0, &forward, &backward) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, arguments, 1, NULL, 0, NULL, &backward) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_vjp(program, NULL, 1, NULL, 0, arguments, 1, NULL, 0, &forward, &backward) == TILEC_ARGUMENT_ERROR);
  tilec_kernel_destroy(forward), tilec_kernel_destroy(backward), tilec_kernel_destroy(kernel);
  tilec_program_destroy(both), tilec_program_destroy(program);
}

static tilec_argument none(const char* name) {
  tilec_argument a;
  memset(&a, 0, sizeof a);
  a.name = name, a.kind = TILEC_NONE;
  return a;
}

/* What nobody wants is no port, and neither it nor what only it needs is computed. */
static void results_can_be_left_out(const char* target) {
  static const char text[] =
      "function f(A[N], B[N], i64 I[N]) -> (C, D, E) { C = A + B; S = exp(A); D = S * B; E = gather(A, I); }";
  tilec_options options = {.size = sizeof options, .target = target, .checked = 1};
  tilec_program *program = NULL, *both = NULL;
  tilec_kernel* kernel = NULL;
  tilec_port port;
  static int64_t six[1] = {6};
  int64_t far[6] = {0, 1, 2, 3, 4, 6};                           /* which the gather of E is told of */
  float c[6] = {0}, db[6] = {1, 1, 1, 1, 1, 1}, ones[6] = {1, 1, 1, 1, 1, 1};
  DLTensor ta = tensor(a, 1, six, NULL), tb = tensor(b, 1, six, NULL), ti = tilec_tensor(far, TILEC_I64, 1, six, NULL),
           tc = tensor(c, 1, six, NULL), tdb = tensor(db, 1, six, NULL), tone = tensor(ones, 1, six, NULL);
  tilec_argument in[6], out[4];
  const void* from[3] = {a, b, far};
  void* to[1] = {c};
  int k;
  EXPECT(tilec_compile(text, strlen(text), &options, &program) == TILEC_OK);
  in[0] = argument(&ta), in[1] = argument(&tb), in[2] = argument(&ti);
  out[0] = argument(&tc), out[1] = none(NULL), out[2] = none("E");
  EXPECT(tilec_run(program, in, 3, out, 3) == TILEC_OK && c[0] == a[0] + b[0] && c[5] == a[5] + b[5]);
  out[1] = argument(&tdb);
  out[2] = argument(&tone);
  EXPECT(tilec_run(program, in, 3, out, 3) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "E0540") != NULL);
  out[0] = argument(&tc), out[1] = none("E"), out[2] = none("D");
  EXPECT(tilec_specialize(program, in, 2, out, 3, &kernel) == TILEC_OK);  /* nothing reads I */
  EXPECT(tilec_kernel_output_count(kernel) == 1 && tilec_kernel_output(kernel, 0, &port) == TILEC_OK &&
      strcmp(port.name, "C") == 0);
  EXPECT(tilec_kernel_input_count(kernel) == 3);
  memset(c, 0, sizeof c);
  EXPECT(tilec_kernel_run(kernel, from, to) == TILEC_OK && c[5] == a[5] + b[5]);
  tilec_kernel_destroy(kernel);
  for (k = 0; k < 6; ++k) ones[k] = 1, db[k] = 1;

  /* Of values and gradients in one: one gradient, added to, and nothing else. */
  EXPECT(tilec_value_and_gradient(program, NULL, 0, NULL, 0, &both) == TILEC_OK && tilec_output_count(both) == 5);
  in[2] = argument(&tone), in[2].name = "dC";
  in[3] = argument(&tone), in[3].name = "dD";
  in[4] = argument(&tone), in[4].name = "dE";
  in[5] = argument(&ti), in[5].name = "I";
  out[0] = none("C"), out[1] = none("D"), out[2] = none("E"), out[3] = none("dA");
  EXPECT(tilec_run(both, in, 6, out, 4) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`dB` has no memory") != NULL);
  out[2] = argument(&tdb), out[2].name = "dB", out[2].kind = TILEC_ADD;
  EXPECT(tilec_specialize(both, in, 6, out, 4, &kernel) == TILEC_OK &&
      tilec_kernel_output_count(kernel) == 2); /* E is not mentioned, so it is one */
  tilec_kernel_destroy(kernel);
  {
    tilec_argument some[5] = {out[0], out[1], out[2], out[3], none("E")};
    EXPECT(tilec_run(both, in, 4, some, 5) == TILEC_OK);
    for (k = 0; k < 6; ++k) EXPECT(fabs((double)db[k] - (2 + exp((double)a[k]))) < 1e-3);
    some[2] = none("dB");
    EXPECT(tilec_run(both, in, 6, some, 5) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "TILEC_NONE") != NULL);
  }
  tilec_program_destroy(both);
  tilec_program_destroy(program);
}

/* Backward adds to gradients, in memory of any strides, and leaves out what nobody wants. */
static void gradients_of_a_pair_accumulate(const char* target) {
  static const char text[] = "function f(X[N, M], W[M]) -> (Y) { Z[i: N] = +(X[i, j] * W[j]); Y = exp(Z); }";
  tilec_options options = {.size = sizeof options, .target = target};
  tilec_program* program = NULL;
  tilec_kernel *forward = NULL, *backward = NULL, *plain = NULL, *plain_forward = NULL;
  tilec_port port;
  static int64_t shape_x[2] = {2, 3}, shape_w[1] = {3}, transposed[2] = {1, 2}, two[1] = {2};
  float x[6] = {0.1f, 0.2f, 0.3f, -0.1f, -0.2f, 0.5f}, w[3] = {1, 2, -1}, dx[6], dw[3], y[2], dy[2] = {1, 3};
  DLTensor tx = tensor(x, 2, shape_x, NULL), tw = tensor(w, 1, shape_w, NULL),
           tdx = tensor(NULL, 2, shape_x, transposed), tdw = tensor(NULL, 1, shape_w, NULL),
           wrong = tensor(NULL, 1, two, NULL);
  tilec_argument in[2], out[2];
  const void* from[8];
  void* to[8];
  const char* wanted;
  double z[2];
  size_t k;
  int i, j, round;
  in[0] = argument(&tx), in[1] = argument(&tw), out[0] = argument(&tdx), out[1] = argument(&tdw);
  out[0].kind = out[1].kind = TILEC_ADD;
  EXPECT(tilec_compile(text, strlen(text), &options, &program) == TILEC_OK);
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, in, 2, out, 2, &forward, &backward) == TILEC_OK);
  EXPECT(tilec_kernel_output_count(backward) == 2 && tilec_kernel_output(backward, 0, &port) == TILEC_OK &&
      strcmp(port.name, "dX") == 0 && port.strides[0] == 1 && port.strides[1] == 2);
  EXPECT(tilec_kernel_output(forward, 0, &port) == TILEC_OK && strcmp(port.name, "Y") == 0);
  for (i = 0; i < 2; ++i) z[i] = exp((double)(x[3 * i] * w[0] + x[3 * i + 1] * w[1] + x[3 * i + 2] * w[2]));
  for (k = 0; k < 6; ++k) dx[k] = 10;
  for (k = 0; k < 3; ++k) dw[k] = 20;
  for (k = 0; k < tilec_kernel_input_count(forward); ++k) {
    EXPECT(tilec_kernel_input(forward, k, &port) == TILEC_OK);
    from[k] = strcmp(port.name, "X") == 0 ? (const void*)x : w;
  }
  for (k = 0; k < tilec_kernel_output_count(forward); ++k) {
    EXPECT(tilec_kernel_output(forward, k, &port) == TILEC_OK);
    to[k] = strcmp(port.name, "Y") == 0 ? y : memory_of(port.name);
  }
  EXPECT(tilec_kernel_run(forward, from, to) == TILEC_OK && fabs((double)y[1] - z[1]) < 1e-5);
  for (k = 0; k < tilec_kernel_input_count(backward); ++k) {
    EXPECT(tilec_kernel_input(backward, k, &port) == TILEC_OK);
    from[k] = strcmp(port.name, "X") == 0 ? (const void*)x
        : strcmp(port.name, "W") == 0     ? w
        : strcmp(port.name, "Y") == 0     ? y
        : strcmp(port.name, "dY") == 0    ? dy
                                          : memory_of(port.name);
  }
  to[0] = dx, to[1] = dw;
  for (round = 1; round < 4; ++round) {
    EXPECT(tilec_kernel_run(backward, from, to) == TILEC_OK);
    for (i = 0; i < 2; ++i)
      for (j = 0; j < 3; ++j) EXPECT(fabs((double)dx[i + 2 * j] - (10 + round * z[i] * (double)(dy[i] * w[j]))) < 1e-4);
    for (j = 0; j < 3; ++j)
      EXPECT(fabs((double)dw[j] - (20 + round * (z[0] * (double)(dy[0] * x[j]) + z[1] * (double)(dy[1] * x[3 + j])))) <
          1e-4);
  }
  tilec_kernel_destroy(forward), tilec_kernel_destroy(backward);

  /* One gradient alone: the kernels that `wrt` gives for it. */
  out[0] = none("dX"), out[1] = argument(&tdw), out[1].name = "dW";
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, in, 2, out, 2, &forward, &backward) == TILEC_OK);
  wanted = "W";
  EXPECT(tilec_vjp(program, NULL, 0, &wanted, 1, in, 2, NULL, 0, &plain_forward, &plain) == TILEC_OK);
  EXPECT(tilec_kernel_output_count(backward) == 1 && tilec_kernel_output(backward, 0, &port) == TILEC_OK &&
      strcmp(port.name, "dW") == 0);
  EXPECT(tilec_kernel_output_count(forward) == tilec_kernel_output_count(plain_forward));
  tilec_kernel_destroy(forward), tilec_kernel_destroy(backward), tilec_kernel_destroy(plain_forward),
      tilec_kernel_destroy(plain);

  forward = backward = NULL;
  out[1] = none("dW");
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, in, 2, out, 2, &forward, &backward) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "TILEC_NONE") != NULL);
  out[1] = argument(&wrong), out[1].name = "dW", out[1].kind = TILEC_ADD;
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, in, 2, out, 2, &forward, &backward) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`dW`") != NULL);
  out[1] = argument(&tdw), out[1].name = "Y";
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, in, 2, out, 2, &forward, &backward) == TILEC_TYPE_ERROR &&
      strstr(tilec_last_error(), "`Y`") != NULL);
  EXPECT(tilec_vjp(program, NULL, 0, NULL, 0, in, 2, NULL, 2, &forward, &backward) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`results` is NULL") != NULL);
  EXPECT(forward == NULL && backward == NULL);
  tilec_program_destroy(program);
}

/* Many tangents at one point: a batch of the tangents alone, in one kernel. */
static void tangents_are_a_batch(void) {
  tilec_program *program = compiled("function f(X[N]) -> (Y) { E = exp(X); Y[i: N] = +(E[i] * X[j]); }", NULL),
                *tangent = NULL, *many = NULL;
  const char* name = "tX";
  static int64_t three[1] = {3}, four_by_three[2] = {4, 3};
  float x[3] = {0.5f, -1, 2}, tx[12], ty[12];
  DLTensor at = tensor(x, 1, three, NULL), along = tensor(tx, 2, four_by_three, NULL),
           to = tensor(ty, 2, four_by_three, NULL);
  tilec_argument in[2], out = argument(&to);
  int b, i;
  for (i = 0; i < 12; ++i) tx[i] = 0.1f * (float)(i * i % 7);
  in[0] = argument(&at), in[1] = argument(&along);
  EXPECT(
      tilec_jvp(program, NULL, 0, NULL, 0, &tangent) == TILEC_OK && tilec_vmap(tangent, &name, 1, &many) == TILEC_OK);
  EXPECT(tilec_run(many, in, 2, &out, 1) == TILEC_OK);
  for (b = 0; b < 4; ++b)
    for (i = 0; i < 3; ++i) {
      const float* t = tx + 3 * b;
      EXPECT(fabs((double)ty[3 * b + i] -
                 exp((double)x[i]) * (double)(t[i] * (x[0] + x[1] + x[2]) + t[0] + t[1] + t[2])) < 1e-4);
    }
  tilec_program_destroy(many), tilec_program_destroy(tangent), tilec_program_destroy(program);
}

static void a_run_may_be_given_its_memory(void) {
  static const char text[] =
      "function f(A[N, N]) -> (C) { B[i, j: N, N] = +(A[i, k] * A[k, j]); D[i, j: N, N] = +(B[i, k] * A[k, j]); C[i, j: N, N] = +(D[i, k] * B[k, j]); }";
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
  EXPECT(tilec_kernel_run_in(kernel, in, out, memory + 4) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "workspace") != NULL);
  out[0] = memory;
  EXPECT(tilec_kernel_run_in(kernel, in, out, memory) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "shares memory with `C`") != NULL);
  out[0] = got;
  EXPECT(tilec_kernel_run_in(kernel, in, out, NULL) == TILEC_OK);
  EXPECT(tilec_kernel_device_workspace(kernel) == 0 && tilec_kernel_device_workspace(NULL) == 0);
  memset(got, 0, sizeof got);
  EXPECT(tilec_kernel_run_on(kernel, in, out, NULL, NULL) == TILEC_OK &&
      memcmp(got, wanted, sizeof got) == 0); /* the CPU has no streams: it waits */
  memset(got, 0, sizeof got);
  EXPECT(tilec_kernel_run_on(kernel, in, out, memory, NULL) == TILEC_OK && memcmp(got, wanted, sizeof got) == 0);
  EXPECT(tilec_kernel_run_on(kernel, in, out, NULL, memory) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "runs on the CPU, which has no streams") != NULL);
  EXPECT(tilec_kernel_run_on(NULL, in, out, NULL, NULL) == TILEC_ARGUMENT_ERROR);
  free(memory);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
}

static void a_kernel_takes_tensors(void) {
  tilec_program* program = compiled(matmul, NULL);
  tilec_kernel *kernel = NULL, *turned = NULL;
  int64_t other[2] = {3, 3}, columns[2] = {1, 3}, rows[2] = {2, 1}, across[2] = {1, 2};
  float c[4] = {0}, far[8] = {0};
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tc = tensor(c, 2, shape_c, NULL), bad;
  const DLTensor* in[2];
  const DLTensor* out[1];
  tilec_argument arguments[2], result;
  in[0] = &ta;
  in[1] = &tb;
  out[0] = &tc;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_OK);
  EXPECT(
      tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_OK && c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
  tc = tensor(far, 2, shape_c, rows);
  tc.byte_offset = 4 * sizeof(float);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_OK && far[3] == 0 && far[4] == 4 && far[7] == 11);
  tc = tensor(c, 2, shape_c, across);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`C`") != NULL && strstr(tilec_last_error(), "strides") != NULL);
  result = argument(&tc);
  EXPECT(tilec_specialize(program, arguments, 2, &result, 1, &turned) == TILEC_OK);
  EXPECT(tilec_call(turned, in, 2, out, 1, NULL, NULL) == TILEC_OK && c[1] == 10 && c[2] == 5);
  tc = tensor(c, 2, shape_c, NULL);
  EXPECT(tilec_call(kernel, in, 1, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "2 inputs and 1 outputs, and 1 and 1 are given") != NULL);
  EXPECT(tilec_call(NULL, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`kernel` is NULL") != NULL);
  EXPECT(tilec_call(kernel, NULL, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`inputs` is NULL") != NULL);
  EXPECT(tilec_call(kernel, in, 2, NULL, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`outputs` is NULL") != NULL);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, c) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`stream` is given") != NULL);
  in[1] = NULL;
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "input `B` is NULL") != NULL);
  in[1] = &bad;
  bad = tensor(b, 2, other, NULL);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "E0517") != NULL && strstr(tilec_last_error(), "`B` is 3x2 but is given 3x3") != NULL);
  bad = tensor(b, 2, shape_b, columns);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "other strides") != NULL);
  bad = tilec_tensor(b, TILEC_I32, 2, shape_b, NULL);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_TYPE_ERROR &&
      strstr(tilec_last_error(), "`B` is declared `f32` but is given `i32`") != NULL);
  bad.dtype.lanes = 4;
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_TYPE_ERROR);
  bad = tensor(b, -1, shape_b, NULL);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "-1 dimensions") != NULL);
  bad = tensor(b, 2, shape_b, NULL);
  bad.device.device_type = kDLCUDA;
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "E0518") != NULL);
  in[1] = &tb;
  tc = tilec_tensor(c, TILEC_F64, 2, shape_c, NULL);
  EXPECT(
      tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_TYPE_ERROR && strstr(tilec_last_error(), "E0557") != NULL);
  tc = tensor(NULL, 2, shape_c, NULL);
  EXPECT(tilec_call(kernel, in, 2, out, 1, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`C`") != NULL);
  tilec_kernel_destroy(kernel);
  tilec_kernel_destroy(turned);
  tilec_program_destroy(program);
}

static void what_a_run_takes_is_told(const char* target) {
  static const char text[] =
      "function f(X[N, M], W[M, K]) -> (Z) { S[i: N] = +(X[i, j]); Y[i, j: N, M] = =(X[i, j] / S[i]); Z[i, k: N, K] = +(Y[i, j] * W[j, k]); }";
  tilec_program* program = compiled(text, target);
  tilec_kernel* kernel = NULL;
  int64_t square[2] = {16, 16};
  static float x[256], w[256], z[256];
  double times[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
  DLTensor tx = tensor(x, 2, square, NULL), tw = tensor(w, 2, square, NULL);
  tilec_argument arguments[2];
  const void* in[2] = {x, w};
  void* out[1] = {z};
  tilec_cost cost;
  size_t count, k;
  const int interpreted = target != NULL && strcmp(target, "reference") == 0;
  for (k = 0; k < 256; ++k) x[k] = 1, w[k] = (float)k;
  arguments[0] = argument(&tx);
  arguments[1] = argument(&tw);
  memset(&cost, 0, sizeof cost);
  EXPECT(
      tilec_estimate(program, arguments, 2, &cost) == TILEC_ARGUMENT_ERROR && strstr(tilec_last_error(), "cost.size"));
  cost.size = sizeof cost;
  EXPECT(tilec_estimate(program, arguments, 2, NULL) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_estimate(program, arguments, 2, &cost) == TILEC_OK);
  EXPECT(cost.operations == 256 + 256 + 2 * 4096 && cost.exact == 1);
  EXPECT(cost.bytes_read == 4 * (256 + (256 + 16) + 2 * 256) && cost.bytes_written == 4 * (16 + 256 + 256));
  EXPECT(interpreted ? cost.memory_bytes == 0 && cost.milliseconds == 0 : cost.memory_bytes >= 3 * 1024);
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_OK);
  count = tilec_kernel_launch_count(kernel);
  EXPECT(interpreted ? count == 0 : count > 0 && count < 8);
  EXPECT((tilec_kernel_code_size(kernel) > 0) == !interpreted);
  EXPECT(tilec_kernel_launch_name(kernel, count) == NULL && tilec_kernel_launch_count(NULL) == 0 &&
      tilec_kernel_code_size(NULL) == 0);
  EXPECT(tilec_kernel_run_timed(kernel, in, out, times) == TILEC_OK);
  EXPECT(z[0] == 120 && z[15 * 16 + 15] == 135);
  for (k = 0; k < 8; ++k) EXPECT(k < count ? times[k] >= 0 : times[k] == -1);
  for (k = 0; k < count; ++k) EXPECT(tilec_kernel_launch_name(kernel, k)[0] == 'k');
  if (count > 0)
    EXPECT(tilec_kernel_run_timed(kernel, in, out, NULL) == TILEC_ARGUMENT_ERROR &&
        strstr(tilec_last_error(), "milliseconds"));
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
}

/* A kernel that adds, and forward of a pair without what it keeps, in the caller's memory. */
static void all_memory_may_be_the_callers(void) {
  static const char text[] =
      "function f(X[N, M], W[M, K]) -> (Y) { A[i, k: N, K] = +(X[i, j] * W[j, k]); Y = exp(A) * A; }";
  static const char path[] = "test_capi_pair.tilec";
  tilec_program* program = compiled(text, NULL);
  tilec_kernel *kernels[2] = {NULL, NULL}, *plain = NULL;
  DLTensor tx = tensor(a, 2, shape_a, NULL), tw = tensor(b, 2, shape_b, NULL), ty = tensor(NULL, 2, shape_c, NULL);
  tilec_argument arguments[2], result;
  float y[4], wanted[4];
  const void* in[2] = {a, b};
  void *out[1] = {y}, *expected[1] = {wanted};
  static _Alignas(64) char workspace[1 << 16];
  static char bytes[1 << 16];
  size_t size = 0, k, e;
  FILE* file;
  arguments[0] = argument(&tx);
  arguments[1] = argument(&tw);
  result = argument(&ty);
  result.kind = TILEC_ADD;
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &plain) == TILEC_OK);
  EXPECT(tilec_specialize(program, arguments, 2, &result, 1, &kernels[0]) == TILEC_OK);
  EXPECT(tilec_save_vjp(program, NULL, 0, NULL, 0, path, arguments, 2) == TILEC_OK);
  file = fopen(path, "rb");
  if (file != NULL) size = fread(bytes, 1, sizeof bytes, file), fclose(file);
  EXPECT(tilec_load(bytes, size, 0, &kernels[1]) == TILEC_OK);
  EXPECT(tilec_kernel_workspace(kernels[0]) >= 16 && tilec_kernel_workspace(kernels[0]) <= sizeof workspace &&
      tilec_kernel_workspace(kernels[1]) <= sizeof workspace);
  EXPECT(tilec_kernel_run(plain, in, expected) == TILEC_OK);
  for (k = 0; k < 2; ++k) {
    for (e = 0; e < 4; ++e) y[e] = 7;
    memset(workspace, 255, sizeof workspace);
    EXPECT(tilec_kernel_run_in(kernels[k], in, out, workspace) == TILEC_OK);
    for (e = 0; e < 4; ++e) EXPECT(fabsf(y[e] - wanted[e] - (k == 0 ? 7.0F : 0.0F)) <= 1e-4F * fabsf(wanted[e]));
    for (e = tilec_kernel_workspace(kernels[k]); e < sizeof workspace; ++e)
      if (workspace[e] != (char)255) break;
    EXPECT(e == sizeof workspace);
    for (e = 0; e < 4; ++e) y[e] = 7;
    EXPECT(tilec_kernel_run(kernels[k], in, out) == TILEC_OK &&
        fabsf(y[0] - wanted[0] - (k == 0 ? 7.0F : 0.0F)) <= 1e-4F * fabsf(wanted[0]));
    tilec_kernel_destroy(kernels[k]);
  }
  tilec_kernel_destroy(plain);
  tilec_program_destroy(program);
  remove(path);
}

static void packages_add(void) {
  static const char path[] = "test_capi_adds.tilec";
  tilec_program* program = compiled(matmul, NULL);
  tilec_kernel* kernel = NULL;
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tc = tensor(NULL, 2, shape_c, NULL);
  tilec_argument arguments[2], result;
  float c[4] = {100, 200, 300, 400};
  const void* in[2] = {a, b};
  void* out[1] = {c};
  static char bytes[1 << 16];
  size_t size = 0;
  FILE* file;
  arguments[0] = argument(&ta);
  arguments[1] = argument(&tb);
  result = argument(&tc);
  result.kind = TILEC_ADD;
  EXPECT(tilec_save_call(program, path, arguments, 2, &result, 1) == TILEC_OK);
  EXPECT(tilec_save_call(program, NULL, arguments, 2, &result, 1) == TILEC_ARGUMENT_ERROR &&
      tilec_save_call(program, path, arguments, 2, NULL, 1) == TILEC_ARGUMENT_ERROR);
  file = fopen(path, "rb");
  if (file != NULL) size = fread(bytes, 1, sizeof bytes, file), fclose(file);
  EXPECT(tilec_load(bytes, size, 0, &kernel) == TILEC_OK);
  EXPECT(tilec_kernel_input_count(kernel) == 2 && tilec_kernel_output_count(kernel) == 1 &&
      tilec_kernel_adds(kernel, 0) == 1 && tilec_kernel_adds(kernel, 1) == 0 && tilec_kernel_adds(NULL, 0) == 0);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK);
  EXPECT(c[0] == 104 && c[1] == 205 && c[2] == 310 && c[3] == 411);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
  remove(path);
}

static void texts_travel(void) {
  static const char text[] =
      "import \"std/norm.tile\";\nfunction f(X[N]) -> (Y) { Y = X * 2.0; }\nfunction g(X[N]) -> (Y) { Y = X * 3.0; }";
  tilec_file *file = NULL, *again = NULL;
  tilec_program* program = NULL;
  tilec_buffer *bytes = NULL, *same = NULL;
  tilec_options options = defaults();
  char changed[64];
  options.function = "g";
  EXPECT(tilec_parse(text, strlen(text), "f.tile", NULL, 0, &file) == TILEC_OK);
  EXPECT(tilec_file_texts(file, &bytes) == TILEC_OK);
  EXPECT(tilec_parse_saved(tilec_buffer_data(bytes), tilec_buffer_size(bytes), &again) == TILEC_OK);
  EXPECT(tilec_file_function_count(again) == 2 && strcmp(tilec_file_function_name(again, 1), "g") == 0);
  EXPECT(tilec_file_compile(again, &options, &program) == TILEC_OK);
  EXPECT(tilec_program_texts(program, &same) == TILEC_OK);
  EXPECT(tilec_buffer_size(same) == tilec_buffer_size(bytes) &&
      memcmp(tilec_buffer_data(same), tilec_buffer_data(bytes), tilec_buffer_size(same)) == 0);
  memcpy(changed, tilec_buffer_data(bytes), sizeof changed);
  tilec_file_destroy(again);
  again = NULL;
  EXPECT(tilec_parse_saved(changed, sizeof changed, &again) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "cut off") && again == NULL);
  EXPECT(tilec_parse_saved("text", 4, &again) == TILEC_ARGUMENT_ERROR &&
      tilec_parse_saved(NULL, 4, &again) == TILEC_ARGUMENT_ERROR);
  EXPECT(tilec_parse_saved(changed, 0, NULL) == TILEC_ARGUMENT_ERROR &&
      tilec_file_texts(NULL, &same) == TILEC_ARGUMENT_ERROR &&
      tilec_program_texts(program, NULL) == TILEC_ARGUMENT_ERROR);
  tilec_buffer_destroy(bytes);
  tilec_buffer_destroy(same);
  tilec_program_destroy(program);
  tilec_file_destroy(file);
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
  EXPECT(tilec_compile(matmul, strlen(matmul), &options, &program) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "abacus") != NULL);
  program = compiled(matmul, NULL);
  arguments[0] = arguments[1] = arguments[2] = argument(&ta);
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_ARGUMENT_ERROR); /* K is 3 and 2 */
  EXPECT(tilec_specialize(program, arguments, 1, NULL, 0, &kernel) == TILEC_TYPE_ERROR);     /* B is missing */
  EXPECT(tilec_specialize(program, arguments, 3, NULL, 0, &kernel) != TILEC_OK);
  ta.device.device_type = kDLCUDA;
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "E0518") != NULL);
  arguments[0].tensor = NULL;
  EXPECT(tilec_specialize(program, arguments, 2, NULL, 0, &kernel) == TILEC_ARGUMENT_ERROR && kernel == NULL);
  tilec_program_destroy(program);
  tilec_program_destroy(NULL);
  tilec_kernel_destroy(NULL);
  tilec_buffer_destroy(NULL);
}

int main(void) {
  EXPECT(tilec_version() == TILEC_VERSION_MAJOR * 10000 + TILEC_VERSION_MINOR * 100 + TILEC_VERSION_PATCH);
  EXPECT(tilec_function_count(matmul, strlen(matmul)) == 1 &&
      strcmp(tilec_function_name(matmul, strlen(matmul), 0), "matmul") == 0);
  a_product_runs("cpu");
  a_product_runs("reference");
  strides_may_be_anything();
  what_has_a_default_may_be_left_out();
  the_cotangent_is_the_last_argument_whatever_is_left_out();
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
  a_kernel_takes_tensors();
  forward_and_backward_are_a_pair();
  what_a_run_takes_is_told("cpu");
  what_a_run_takes_is_told("reference");
  packages_add();
  all_memory_may_be_the_callers();
  texts_travel();
  results_can_be_left_out("cpu");
  results_can_be_left_out("reference");
  gradients_of_a_pair_accumulate("cpu");
  gradients_of_a_pair_accumulate("reference");
  tangents_are_a_batch();
  mistakes_are_named();
  printf("%d expectations failed\n", failures);
  return failures != 0;
}
