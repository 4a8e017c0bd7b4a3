/* The C API from several threads at once: one program specialised and run by all of them, for the same shapes and for others, and
 * programs that each thread compiles, differentiates and destroys itself. `./dev sanitize` runs it under ThreadSanitizer. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tilec/tilec.h"

enum { threads = 8, rounds = 6, most = 12 };

static const char text[] = "function f(A[M, K], B[K, N], S) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j] * S);\n}\n";
static const char several[] =
    "function one(A[M, K], B[K, N], S) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j] * S); }\n"
    "function two(A[M, K], B[K, N], S) -> (C) { C = one(A, B, S); }\n"
    "function three(A[M, K], B[K, N], S) -> (C) { C = two(A, B * S, 1.0); }\n";
static tilec_program* shared;
static tilec_file* file;

static DLTensor matrix(float* data, int64_t* shape) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = 2;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* C = 2·ones·ones of extents m, k, n: every element is 2·k. */
static int product_is_right(const tilec_program* program, int64_t m, int64_t k, int64_t n) {
  float a[most * most], b[most * most], c[most * most];
  int64_t shape_a[2] = {m, k}, shape_b[2] = {k, n}, shape_c[2] = {m, n};
  DLTensor ta = matrix(a, shape_a), tb = matrix(b, shape_b), tc = matrix(c, shape_c);
  tilec_argument arguments[3], result;
  int64_t i;
  memset(arguments, 0, sizeof arguments);
  memset(&result, 0, sizeof result);
  for (i = 0; i < most * most; ++i) a[i] = b[i] = 1, c[i] = 0;
  arguments[0].tensor = &ta;
  arguments[1].tensor = &tb;
  arguments[2].kind = TILEC_INTEGER;
  arguments[2].integer = 2;
  result.tensor = &tc;
  if (tilec_run(program, arguments, 3, &result, 1) != TILEC_OK) return 0;
  for (i = 0; i < m * n; ++i)
    if (c[i] != (float)(2 * k)) return 0;
  return 1;
}

static tilec_program* compiled(void) {
  tilec_options options;
  tilec_program* program = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return tilec_compile(text, strlen(text), &options, &program) == TILEC_OK ? program : NULL;
}

/* A function of the file that all threads use. */
static int function_is_right(const char* name) {
  tilec_options options;
  tilec_program* program = NULL;
  int right;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.function = name;
  right = tilec_file_compile(file, &options, &program) == TILEC_OK && product_is_right(program, 3, 4, 3);
  tilec_program_destroy(program);
  return right;
}

/* Its argument is where it counts its failures. */
static void* work(void* failures) {
  int64_t round;
  for (round = 0; round < rounds; ++round) {
    tilec_program *own = compiled(), *gradient = NULL, *wrong = NULL;
    *(int*)failures += !product_is_right(shared, 3, 4, 5) || !product_is_right(shared, 2 + round, 3, 4);
    *(int*)failures += own == NULL || !product_is_right(own, 4, 4, 4);
    *(int*)failures += own == NULL || tilec_gradient(own, NULL, 0, NULL, 0, &gradient) != TILEC_OK;
    *(int*)failures += tilec_compile("function f(", 11, NULL, &wrong) != TILEC_PROGRAM_ERROR || strstr(tilec_last_error(), "E0") == NULL;
    *(int*)failures += !function_is_right("three") || !function_is_right("one") || !function_is_right("two");
    *(int*)failures += tilec_file_function_count(file) != 3 || strcmp(tilec_file_function_name(file, 1), "two") != 0;
    tilec_program_destroy(gradient);
    tilec_program_destroy(own);
  }
  return NULL;
}

int main(void) {
  pthread_t thread[threads];
  int failures[threads] = {0}, all = 0, k;
  shared = compiled();
  if (shared == NULL || tilec_parse(several, strlen(several), NULL, NULL, 0, &file) != TILEC_OK) return 1;
  for (k = 0; k < threads; ++k)
    if (pthread_create(&thread[k], NULL, work, &failures[k]) != 0) return 1;
  for (k = 0; k < threads; ++k) {
    pthread_join(thread[k], NULL);
    all += failures[k];
  }
  tilec_program_destroy(shared);
  tilec_file_destroy(file);
  printf("%d failed\n%s", all, all ? tilec_last_error() : "");
  return all != 0;
}
