/* What a host puts in the place of tilec's own: memory, threads, and who hears what is said. Each used, each failing,
 * each taken back. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "expect.h"

/* ---- Memory: blocks that know their size, so that what comes back is what went out. */

struct memory {
  atomic_long asked, live, strange; /* strange: given back with another size, alignment or user */
  atomic_size_t largest;
  size_t limit;                     /* more bytes than that are NULL */
  size_t shift;                     /* how far from aligned */
};
struct block { struct memory* owner; size_t bytes, alignment; };

static void* take(void* user, size_t bytes, size_t alignment) {
  struct memory* m = user;
  char* whole;
  struct block* head;
  atomic_fetch_add(&m->asked, 1);
  if (bytes > atomic_load(&m->largest)) atomic_store(&m->largest, bytes);
  if (bytes == 0 || alignment != 64) atomic_fetch_add(&m->strange, 1);
  if (bytes > m->limit) return NULL;
  whole = aligned_alloc(64, (bytes + 255) / 64 * 64);
  head = (struct block*)(void*)(whole + 64 + m->shift - sizeof *head);
  head->owner = m, head->bytes = bytes, head->alignment = alignment;
  atomic_fetch_add(&m->live, 1);
  return whole + 64 + m->shift;
}

static void give(void* user, void* memory, size_t bytes, size_t alignment) {
  struct memory* m = user;
  const struct block* head = (const struct block*)memory - 1;
  if (head->owner != m || head->bytes != bytes || head->alignment != alignment) atomic_fetch_add(&m->strange, 1);
  atomic_fetch_sub(&m->live, 1);
  free((char*)memory - 64 - m->shift);
}

enum { side = 40 };
static const char chain[] =
    "function f(A[N, N]) -> (C) { B[i, j: N, N] = +(A[i, k] * A[k, j]); D[i, j: N, N] = +(B[i, k] * A[k, j]); C[i, j: N, N] = +(D[i, k] * B[k, j]); }";
static float big[side * side], wanted[side * side], got[2 * side * side];
static int64_t square[2] = {side, side};

static tilec_kernel* chain_kernel(const char* target, int threads, tilec_argument_kind kind, tilec_program** program) {
  tilec_options options = defaults();
  tilec_kernel* kernel = NULL;
  DLTensor t = tensor(big, 2, square, NULL), r = tensor(NULL, 2, square, NULL);
  tilec_argument in = argument(&t), out = argument(&r);
  options.target = target, options.threads = threads, options.cache = "";
  out.kind = kind;
  EXPECT(tilec_compile(chain, strlen(chain), &options, program) == TILEC_OK);
  EXPECT(tilec_specialize(*program, &in, 1, &out, 1, &kernel) == TILEC_OK);
  return kernel;
}

static void memory_is_the_hosts(void) {
  struct memory mine = {.limit = (size_t)1 << 40}, other = {.limit = (size_t)1 << 40};
  tilec_program *program = NULL, *adding_program = NULL;
  tilec_kernel *kernel, *adding;
  const void* in[1] = {big};
  void* out[1] = {wanted};
  char* workspace;
  int k;
  for (k = 0; k < side * side; ++k) big[k] = 0.01f * (float)(k % 37);
  kernel = chain_kernel("cpu", 1, TILEC_TENSOR, &program);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);

  EXPECT(tilec_set_allocator(take, give, &mine) == TILEC_OK);
  kernel = chain_kernel("cpu", 1, TILEC_TENSOR, &program);
  EXPECT(mine.asked == 0); /* compiling is not data */
  out[0] = got;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && memcmp(got, wanted, sizeof wanted) == 0);
  EXPECT(mine.asked == 1 && mine.live == 1 && mine.largest == tilec_kernel_workspace(kernel));
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && mine.asked == 1); /* kept for the next run */

  workspace = aligned_alloc(64, (tilec_kernel_workspace(kernel) + 63) / 64 * 64);
  EXPECT(tilec_kernel_run_in(kernel, in, out, workspace) == TILEC_OK && mine.asked == 1);
  free(workspace);

  memcpy(got, big, sizeof big); /* an input under the output is copied, and the copy goes at once */
  in[0] = got;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && memcmp(got, wanted, sizeof wanted) == 0 && mine.asked == 2 &&
      mine.live == 1);
  in[0] = big;

  adding = chain_kernel("cpu", 1, TILEC_ADD, &adding_program);
  for (k = 0; k < side * side; ++k) got[k] = 1;
  EXPECT(tilec_kernel_run(adding, in, out) == TILEC_OK && got[7] == 1 + wanted[7] && mine.asked == 4 && mine.live == 3);

  /* What was asked of one allocator does not go to another. */
  EXPECT(tilec_set_allocator(take, give, &other) == TILEC_OK);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && other.asked == 0);
  tilec_kernel_destroy(kernel), tilec_kernel_destroy(adding);
  tilec_program_destroy(program), tilec_program_destroy(adding_program);
  EXPECT(mine.live == 0 && mine.strange == 0);
  kernel = chain_kernel("cpu", 1, TILEC_TENSOR, &program);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && other.asked == 1);
  EXPECT(tilec_set_allocator(NULL, NULL, NULL) == TILEC_OK);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
  EXPECT(other.live == 0 && other.strange == 0);
}

static void no_memory_is_said(void) {
  struct memory little = {.limit = 1000}, crooked = {.limit = (size_t)1 << 40, .shift = 32};
  tilec_program* program = NULL;
  tilec_kernel* kernel = chain_kernel("cpu", 1, TILEC_TENSOR, &program);
  const void* in[1] = {big};
  void* out[1] = {got};
  char bytes[32];
  snprintf(bytes, sizeof bytes, "%zu bytes", tilec_kernel_workspace(kernel));
  EXPECT(tilec_set_allocator(take, give, &little) == TILEC_OK);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "E0512") != NULL &&
      strstr(tilec_last_error(), bytes) != NULL);
  EXPECT(strstr(tilec_last_error(), "the workspace of f") != NULL && little.live == 0);
  in[0] = got, out[0] = got + side; /* 12,800 bytes to copy */
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "`A`") != NULL &&
      strstr(tilec_last_error(), "6400 bytes") != NULL);
  in[0] = big, out[0] = got;
  little.limit = (size_t)1 << 40;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && memcmp(got, wanted, sizeof wanted) == 0 &&
      tilec_last_error()[0] == 0);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
  EXPECT(little.live == 0 && little.strange == 0);
  EXPECT(tilec_set_allocator(take, give, &crooked) == TILEC_OK);
  kernel = chain_kernel("cpu", 1, TILEC_TENSOR, &program);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR &&
      strstr(tilec_last_error(), "aligned to 64") != NULL && crooked.live == 0);
  EXPECT(tilec_set_allocator(NULL, give, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`allocate` is NULL") != NULL);
  EXPECT(tilec_set_allocator(take, NULL, NULL) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`release` is NULL") != NULL);
  EXPECT(tilec_set_allocator(NULL, NULL, NULL) == TILEC_OK);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK);
  tilec_kernel_destroy(kernel);
  tilec_program_destroy(program);
}

/* ---- Threads: as many as workers, each with every so many turns. */

enum { most_threads = 4 };
struct pool {
  atomic_long calls, turns;
  int answer;           /* what it returns */
  int64_t left_out;     /* turns that it does not run, at the end */
  int64_t worker_shift; /* added to each worker */
  int64_t again;        /* turns in the place of which the first one runs once more */
};
struct share { struct pool* pool; tilec_turn turn; void* arguments; int64_t from, step, count, worker; };

static void* run_share(void* given) {
  const struct share* s = given;
  int64_t i;
  for (i = s->from; i < s->count; i += s->step) {
    atomic_fetch_add(&s->pool->turns, 1);
    s->turn(s->arguments, i < s->count - s->pool->again ? i : 0, s->worker);
  }
  return NULL;
}

static int run_on_threads(void* user, int64_t count, int64_t workers, tilec_turn turn, void* arguments) {
  struct pool* pool = user;
  pthread_t threads[most_threads];
  struct share shares[most_threads];
  int64_t n = workers < most_threads ? workers : most_threads, k;
  EXPECT(count >= 1 && workers >= 1 && workers <= count);
  atomic_fetch_add(&pool->calls, 1);
  for (k = 0; k < n; ++k) {
    struct share s = {pool, turn, arguments, k, n, count - pool->left_out, k + pool->worker_shift};
    shares[k] = s;
    if (k > 0) EXPECT(pthread_create(&threads[k], NULL, run_share, &shares[k]) == 0);
  }
  run_share(&shares[0]);
  for (k = 1; k < n; ++k) pthread_join(threads[k], NULL);
  return pool->answer;
}

/* Large enough to be shared out, with a sum and rows that each worker has memory of its own for. */
static const char wide[] =
    "function f(A[M, K], B[K, N]) -> (C, S) { C[i, j: M, N] = +(A[i, k] * B[k, j]); S[i: M] = +(C[i, j] * C[i, j]); }";
enum { rows = 192 };
static float left[rows * rows], right[rows * rows], product[rows * rows], serial[rows * rows], sums[rows],
    serial_sums[rows];
static int64_t large[2] = {rows, rows};

static tilec_program* wide_program(int threads) {
  tilec_options options = defaults();
  tilec_program* program = NULL;
  options.threads = threads, options.cache = "";
  EXPECT(tilec_compile(wide, strlen(wide), &options, &program) == TILEC_OK);
  return program;
}

static tilec_kernel* wide_kernel(const tilec_program* program) {
  tilec_kernel* kernel = NULL;
  DLTensor a = tensor(left, 2, large, NULL), b = tensor(right, 2, large, NULL);
  tilec_argument in[2];
  in[0] = argument(&a), in[1] = argument(&b);
  EXPECT(tilec_specialize(program, in, 2, NULL, 0, &kernel) == TILEC_OK);
  return kernel;
}

static void threads_are_the_hosts(void) {
  struct pool pool = {.answer = 0};
  tilec_program *program = wide_program(0), *single_program = wide_program(1);
  tilec_kernel *kernel, *single, *own;
  const void* in[2] = {left, right};
  void *out[2] = {product, sums}, *alone[2] = {serial, serial_sums};
  long turns;
  int k;
  for (k = 0; k < rows * rows; ++k) left[k] = (float)(k % 11) - 5, right[k] = (float)(k % 7) - 3;
  EXPECT(tilec_set_parallel_for(run_on_threads, most_threads, &pool) == TILEC_OK);
  kernel = wide_kernel(program), single = wide_kernel(single_program);
  EXPECT(tilec_kernel_run(single, in, alone) == TILEC_OK && pool.calls == 0);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && pool.calls > 0 && pool.turns > 1);
  EXPECT(memcmp(product, serial, sizeof product) == 0 && memcmp(sums, serial_sums, sizeof sums) == 0);
  turns = pool.turns;

  /* What the host does not run is no result. */
  pool.left_out = 1;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "E0554") != NULL &&
      strstr(tilec_last_error(), " turns") != NULL);
  pool.left_out = 0, pool.answer = 7;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "returned 7") != NULL);
  pool.answer = 0, pool.worker_shift = most_threads;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "out of range") != NULL);
  pool.worker_shift = -1;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "out of range") != NULL);
  pool.worker_shift = 0, pool.left_out = -1;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "out of range") != NULL);
  pool.left_out = 0, pool.again = 1;
  EXPECT(
      tilec_kernel_run(kernel, in, out) == TILEC_DEVICE_ERROR && strstr(tilec_last_error(), "1 of them again") != NULL);
  pool.again = 0;
  memset(product, 0, sizeof product);
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && memcmp(product, serial, sizeof product) == 0 &&
      tilec_last_error()[0] == 0);

  /* A kernel keeps the threads that it was made with; others have tilec's own. */
  EXPECT(tilec_set_parallel_for(NULL, 0, NULL) == TILEC_OK);
  own = wide_kernel(program);
  pool.turns = 0;
  EXPECT(tilec_kernel_run(kernel, in, out) == TILEC_OK && pool.turns == turns);
  memset(product, 0, sizeof product);
  EXPECT(tilec_kernel_run(own, in, out) == TILEC_OK && pool.turns == turns &&
      memcmp(product, serial, sizeof product) == 0);
  EXPECT(tilec_set_parallel_for(run_on_threads, 0, &pool) == TILEC_ARGUMENT_ERROR &&
      strstr(tilec_last_error(), "`workers` is 0") != NULL);
  EXPECT(tilec_set_parallel_for(run_on_threads, INT64_MAX, &pool) == TILEC_ARGUMENT_ERROR);
  tilec_kernel_destroy(kernel), tilec_kernel_destroy(single), tilec_kernel_destroy(own);
  tilec_program_destroy(program), tilec_program_destroy(single_program);
}

/* ---- What is said. */

struct heard {
  int count, errors, warnings;
  char code[8], text[400];
  pthread_t thread;
  int line;
  tilec_program* program;
};

static void hear(void* user, const tilec_diagnostic* d, const char* text) {
  struct heard* h = user;
  ++h->count;
  h->errors += d->severity == TILEC_ERROR;
  h->warnings += d->severity == TILEC_WARNING;
  snprintf(h->code, sizeof h->code, "%s", d->code);
  snprintf(h->text, sizeof h->text, "%s", text);
  h->thread = pthread_self(), h->line = d->line;
  if (h->program ==
      NULL) { /* it may call tilec, which is not heard, and which leaves the other call's error as it is */
    tilec_program* none = NULL;
    EXPECT(
        tilec_compile("function", 8, NULL, &none) == TILEC_PROGRAM_ERROR && strstr(tilec_last_error(), "E0") != NULL);
  }
}

static void* compile_badly(void* result) {
  tilec_program* program = NULL;
  *(tilec_status*)result = tilec_compile("function f(A[M, N]) -> (B) {\n  B[i: M] = +(A[i]);\n}\n", 51, NULL, &program);
  return NULL;
}

static void what_is_said_is_heard(void) {
  static const char doubtful[] = "function (A, B, C) -> (O) {\n  O = A > 0 ? B : C > 0 ? A : B;\n}\n"; /* W0101 */
  static const char gathers[] = "function (A[N], i64 I[M]) -> (B) { B = gather(A, I); }";
  struct heard heard;
  tilec_status status = TILEC_OK;
  tilec_program *program = NULL, *gather = NULL;
  tilec_options options = defaults();
  pthread_t thread;
  float three[3] = {1, 2, 3}, out_data[1];
  int64_t bad[1] = {9}, one[1] = {1}, threes[1] = {3};
  DLTensor ta = tensor(three, 1, threes, NULL), ti = tilec_tensor(bad, TILEC_I64, 1, one, NULL),
           to = tensor(out_data, 1, one, NULL);
  tilec_argument in[2], out = argument(&to);
  memset(&heard, 0, sizeof heard);
  in[0] = argument(&ta), in[1] = argument(&ti);
  EXPECT(tilec_set_diagnostic_callback(hear, &heard) == TILEC_OK && heard.count == 0);
  compile_badly(&status);
  EXPECT(status == TILEC_PROGRAM_ERROR && heard.count == 1 && heard.errors == 1 && strcmp(heard.code, "E0201") == 0 &&
      heard.line == 2);
  EXPECT(strstr(heard.text, "<text>:2:") != NULL && strstr(heard.text, "^") != NULL &&
      strcmp(heard.text, tilec_last_error()) == 0);
  EXPECT(tilec_last_diagnostic_count() == 1 && pthread_equal(heard.thread, pthread_self()));
  EXPECT(tilec_compile(doubtful, strlen(doubtful), NULL, &program) == TILEC_OK && heard.count == 2 &&
      heard.warnings == 1 && strcmp(heard.code, "W0101") == 0);
  EXPECT(pthread_create(&thread, NULL, compile_badly, &status) == 0 && pthread_join(thread, NULL) == 0);
  EXPECT(heard.count == 3 && !pthread_equal(heard.thread, pthread_self()));

  /* Of runs too: misuse, and what is found once the kernel has run. */
  EXPECT(tilec_kernel_run(NULL, NULL, NULL) == TILEC_ARGUMENT_ERROR && heard.count == 4 &&
      strcmp(heard.code, "E0554") == 0);
  options.checked = 1;
  EXPECT(tilec_compile(gathers, strlen(gathers), &options, &gather) == TILEC_OK);
  EXPECT(tilec_run(gather, in, 2, &out, 1) == TILEC_ARGUMENT_ERROR && heard.count == 5 &&
      strcmp(heard.code, "E0540") == 0);
  EXPECT(tilec_set_diagnostic_callback(NULL, NULL) == TILEC_OK);
  EXPECT(tilec_run(gather, in, 2, &out, 1) == TILEC_ARGUMENT_ERROR && heard.count == 5);
  tilec_program_destroy(program), tilec_program_destroy(gather);
}

int main(void) {
  memory_is_the_hosts();
  no_memory_is_said();
  threads_are_the_hosts();
  what_is_said_is_heard();
  printf("%d expectations failed\n", failures);
  return failures != 0;
}
