/* Calls a convolution that tilec compiled, and compares it with loops.
 *
 *   tilec build conv.tile --size N=1,H=56,W=56,CI=16,KH=3,KW=3,CO=32 -o conv.o
 *   cc main.c conv.o -lm && ./a.out
 *   cc main.c threads.c conv.o -lm -pthread && ./a.out
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "conv.h"

enum { H = 56, W = 56, CI = 16, K = 3, CO = 32, OH = 28, OW = 28 };

static float image[H][W][CI], filter[K][K][CI][CO], result[OH][OW][CO];

static float naive(int y, int x, int co) {
  double sum = 0;
  for (int j = 0; j < K; ++j)
    for (int i = 0; i < K; ++i)
      for (int ci = 0; ci < CI; ++ci) {
        int row = 2 * y + j - 1, column = 2 * x + i - 1;
        if (row >= 0 && row < H && column >= 0 && column < W)
          sum += (double)image[row][column][ci] * filter[j][i][ci][co];
      }
  return (float)sum;
}

static void fill(float* values, size_t count) {
  for (size_t k = 0; k < count; ++k) values[k] = (float)rand() / (float)RAND_MAX - 0.5f;
}

int main(void) {
  fill(&image[0][0][0], sizeof image / sizeof(float));
  fill(&filter[0][0][0][0], sizeof filter / sizeof(float));
  size_t bytes = (conv_workspace() + 63) / 64 * 64;
  void* workspace = bytes ? aligned_alloc(64, bytes) : NULL;
  int status = conv(&image[0][0][0], &filter[0][0][0][0], &result[0][0][0], workspace);
  free(workspace);
  if (status != 0) {
    printf("conv returned %d\n", status);
    return 1;
  }
  float largest = 0;
  for (int y = 0; y < OH; ++y)
    for (int x = 0; x < OW; ++x)
      for (int co = 0; co < CO; ++co) largest = fmaxf(largest, fabsf(result[y][x][co] - naive(y, x, co)));
  printf(largest < 1e-5f ? "conv agrees with loops\n" : "conv differs from loops by %g\n", largest);
  return largest < 1e-5f ? 0 : 1;
}
