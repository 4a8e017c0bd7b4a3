/* tilec inside a C program: a convolution with stride 2 and its gradient, each checked against loops.
 *
 *     cc conv.c $(pkg-config --cflags --libs tilec) -o conv && ./conv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tilec/tilec.h"

static const char text[] =
    "function conv(I[H, W], K[KH, KW]) -> (O) {\n"
    "  O[y, x: (H - KH) / 2 + 1, (W - KW) / 2 + 1] = +(I[2*y + j, 2*x + i] * K[j, i]);\n"
    "}\n";

enum { H = 9, W = 11, KH = 3, KW = 3, OH = (H - KH) / 2 + 1, OW = (W - KW) / 2 + 1 };

static float I[H][W], K[KH][KW], O[OH][OW], dO[OH][OW], dI[H][W], dK[KH][KW];

static void must(tilec_status status) {
  if (status == TILEC_OK) return;
  fputs(tilec_last_error(), stderr);
  exit(1);
}

/* What tilec computed against what the loops did; of whole numbers this small every sum is exact. */
static int differ(const char* name, const float* got, const float* wanted, size_t count) {
  for (size_t k = 0; k < count; ++k)
    if (got[k] != wanted[k]) {
      printf("%s: element %zu is %g, not %g\n", name, k, (double)got[k], (double)wanted[k]);
      return 1;
    }
  printf("%s: %zu elements agree\n", name, count);
  return 0;
}

static int check(void) {
  static float o[OH][OW], di[H][W], dk[KH][KW];
  for (int y = 0; y < OH; ++y)
    for (int x = 0; x < OW; ++x)
      for (int j = 0; j < KH; ++j)
        for (int i = 0; i < KW; ++i) {
          o[y][x] += I[2 * y + j][2 * x + i] * K[j][i];
          di[2 * y + j][2 * x + i] += dO[y][x] * K[j][i];
          dk[j][i] += dO[y][x] * I[2 * y + j][2 * x + i];
        }
  return differ("O", O[0], o[0], OH * OW) + differ("dI", dI[0], di[0], H * W) + differ("dK", dK[0], dk[0], KH * KW);
}

int main(void) {
  for (int k = 0; k < H * W; ++k) I[k / W][k % W] = (float)(k % 7 - 3);
  for (int k = 0; k < KH * KW; ++k) K[k / KW][k % KW] = (float)(k - 4);
  for (int k = 0; k < OH * OW; ++k) dO[k / OW][k % OW] = (float)(k % 5 - 2);

  DLTensor image = tilec_tensor(I, TILEC_F32, 2, (int64_t[]){H, W}, NULL),
           filter = tilec_tensor(K, TILEC_F32, 2, (int64_t[]){KH, KW}, NULL);
  DLTensor cotangent = tilec_tensor(dO, TILEC_F32, 2, (int64_t[]){OH, OW}, NULL);

  tilec_program *conv, *gradient;
  must(tilec_compile(text, strlen(text), NULL, &conv));
  must(tilec_gradient(conv, NULL, 0, NULL, 0, &gradient));   /* (I, K, dO) -> (dI, dK) */

  /* Forward: compiled once for these shapes, run as often as one likes. */
  tilec_argument inputs[] = {{.tensor = &image}, {.tensor = &filter}, {.tensor = &cotangent}};
  tilec_kernel* kernel;
  must(tilec_specialize(conv, inputs, 2, NULL, 0, &kernel));
  must(tilec_kernel_run(kernel, (const void*[]){I, K}, (void*[]){O}));

  /* Backward: compiled and run in one call. */
  DLTensor of_image = tilec_tensor(dI, TILEC_F32, 2, (int64_t[]){H, W}, NULL),
           of_filter = tilec_tensor(dK, TILEC_F32, 2, (int64_t[]){KH, KW}, NULL);
  tilec_argument results[] = {{.tensor = &of_image}, {.tensor = &of_filter}};
  must(tilec_run(gradient, inputs, 3, results, 2));

  tilec_kernel_destroy(kernel);
  tilec_program_destroy(gradient);
  tilec_program_destroy(conv);
  return check() == 0 ? 0 : 1;
}
