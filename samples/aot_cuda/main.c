/* Calls a convolution that tilec compiled for GPUs, and compares it with loops.
 *
 *   tilec build ../aot_c/conv.tile --size N=1,H=56,W=56,CI=16,KH=3,KW=3,CO=32 --target cuda:sm_80,sm_90a -o conv.o
 *   cc main.c conv.o -lcuda -lm && ./a.out
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "conv.h"

/* What is taken of cuda.h, so that no toolkit is needed here. */
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
int cuInit(unsigned flags);
int cuDeviceGet(int* device, int ordinal);
int cuDevicePrimaryCtxRetain(CUcontext* context, int device);
int cuCtxPushCurrent_v2(CUcontext context);
int cuMemAlloc_v2(CUdeviceptr* address, size_t bytes);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes);
int cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes);

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

static void done(int result_of_driver, const char* what) {
  if (result_of_driver == 0) return;
  printf("%s: the driver returned %d\n", what, result_of_driver);
  exit(1);
}

static void* on_gpu(const void* values, size_t bytes) {
  CUdeviceptr address = 0;
  if (bytes == 0) return NULL;
  done(cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
  if (values) done(cuMemcpyHtoD_v2(address, values, bytes), "cuMemcpyHtoD");
  return (void*)(uintptr_t)address;
}

int main(void) {
  int device = 0;
  CUcontext context = NULL;
  done(cuInit(0), "cuInit");
  done(cuDeviceGet(&device, 0), "cuDeviceGet");
  done(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  done(cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
  fill(&image[0][0][0], sizeof image / sizeof(float));
  fill(&filter[0][0][0][0], sizeof filter / sizeof(float));
  float *I = on_gpu(image, sizeof image), *F = on_gpu(filter, sizeof filter), *O = on_gpu(NULL, sizeof result);
  int status = conv(I, F, O, on_gpu(NULL, conv_workspace()), NULL);
  if (status != 0) {
    printf("conv returned %d\n", status);
    return 1;
  }
  done(cuMemcpyDtoH_v2(result, (CUdeviceptr)(uintptr_t)O, sizeof result), "cuMemcpyDtoH");
  float largest = 0;
  for (int y = 0; y < OH; ++y)
    for (int x = 0; x < OW; ++x)
      for (int co = 0; co < CO; ++co) largest = fmaxf(largest, fabsf(result[y][x][co] - naive(y, x, co)));
  printf(largest < 1e-5f ? "conv agrees with loops\n" : "conv differs from loops by %g\n", largest);
  return largest < 1e-5f ? 0 : 1;
}
