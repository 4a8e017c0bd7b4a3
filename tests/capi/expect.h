/* What the tests of the C API share: a check that counts and goes on, arguments, and a program compiled. */
#ifndef TILEC_TESTS_EXPECT_H
#define TILEC_TESTS_EXPECT_H

#include <stdio.h>
#include <string.h>

#include "tilec/tilec.h"

static int failures = 0;

#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      printf("%s:%d: not so: %s\n%s\n", __FILE__, __LINE__, #condition, tilec_last_error()); \
      ++failures;                                                                            \
    }                                                                                        \
  } while (0)

/* Of f32, on the host. */
static inline DLTensor tensor(void* data, int32_t rank, int64_t* shape, int64_t* strides) {
  return tilec_tensor(data, TILEC_F32, rank, shape, strides);
}

/* The argument next in order. */
static inline tilec_argument argument(const DLTensor* t) {
  tilec_argument a;
  memset(&a, 0, sizeof a);
  a.kind = TILEC_TENSOR;
  a.tensor = t;
  return a;
}

static inline tilec_options defaults(void) {
  tilec_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* `target` may be NULL. */
static inline tilec_program* compiled(const char* text, const char* target) {
  tilec_options options = defaults();
  tilec_program* program = NULL;
  options.target = target;
  options.file_name = "test.tile";
  EXPECT(tilec_compile(text, strlen(text), &options, &program) == TILEC_OK);
  return program;
}

#endif
