/* The C API from several threads at once: one program specialised and run by all of them, for the same shapes and for
 * others, and programs that each thread compiles, differentiates and destroys itself. `./dev sanitize` runs it under
 * ThreadSanitizer. */
#include <pthread.h>

#include "expect.h"

enum { threads = 8, rounds = 6, most = 12 };

static const char text[] = "function f(A[M, K], B[K, N], S) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j] * S);\n}\n";
static const char several[] =
    "function one(A[M, K], B[K, N], S) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j] * S); }\n"
    "function two(A[M, K], B[K, N], S) -> (C) { C = one(A, B, S); }\n"
    "function three(A[M, K], B[K, N], S) -> (C) { C = two(A, B * S, 1.0); }\n";
static tilec_program* shared;
static tilec_file* file;

/* C = 2·ones·ones of extents m, k, n: every element is 2·k. */
static int product_is_right(const tilec_program* program, int64_t m, int64_t k, int64_t n) {
  float a[most * most], b[most * most], c[most * most];
  int64_t shape_a[2] = {m, k}, shape_b[2] = {k, n}, shape_c[2] = {m, n};
  DLTensor ta = tensor(a, 2, shape_a, NULL), tb = tensor(b, 2, shape_b, NULL), tc = tensor(c, 2, shape_c, NULL);
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

/* A function of the file that all threads use. */
static int function_is_right(const char* name) {
  tilec_options options = defaults();
  tilec_program* program = NULL;
  int right;
  options.function = name;
  right = tilec_file_compile(file, &options, &program) == TILEC_OK && product_is_right(program, 3, 4, 3);
  tilec_program_destroy(program);
  return right;
}

/* Its argument is where it counts its failures. */
static void* work(void* failed) {
  int64_t round;
  for (round = 0; round < rounds; ++round) {
    tilec_program *own = compiled(text, NULL), *gradient = NULL, *wrong = NULL;
    *(int*)failed += !product_is_right(shared, 3, 4, 5) || !product_is_right(shared, 2 + round, 3, 4);
    *(int*)failed += own == NULL || !product_is_right(own, 4, 4, 4);
    *(int*)failed += own == NULL || tilec_gradient(own, NULL, 0, NULL, 0, &gradient) != TILEC_OK;
    *(int*)failed += tilec_compile("function f(", 11, NULL, &wrong) != TILEC_PROGRAM_ERROR ||
        strstr(tilec_last_error(), "E0") == NULL;
    *(int*)failed += !function_is_right("three") || !function_is_right("one") || !function_is_right("two");
    *(int*)failed += tilec_file_function_count(file) != 3 || strcmp(tilec_file_function_name(file, 1), "two") != 0;
    tilec_program_destroy(gradient);
    tilec_program_destroy(own);
  }
  return NULL;
}

int main(void) {
  pthread_t thread[threads];
  int failed[threads] = {0}, all = 0, k;
  shared = compiled(text, NULL);
  if (shared == NULL || tilec_parse(several, strlen(several), NULL, NULL, 0, &file) != TILEC_OK) return 1;
  for (k = 0; k < threads; ++k)
    if (pthread_create(&thread[k], NULL, work, &failed[k]) != 0) return 1;
  for (k = 0; k < threads; ++k) {
    pthread_join(thread[k], NULL);
    all += failed[k];
  }
  tilec_program_destroy(shared);
  tilec_file_destroy(file);
  printf("%d failed\n%s", all, all ? tilec_last_error() : "");
  return all != 0;
}
