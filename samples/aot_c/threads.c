/* Shares turns out over threads: linked, it takes the place of the weak definition in conv.o. A program with a pool of
 * threads calls that here. */
#include <pthread.h>

#include "conv.h"

enum { THREADS = 4 };

typedef struct {
  int64_t from, to, worker;
  void (*turn)(void* arguments, int64_t i, int64_t worker);
  void* arguments;
} Share;

static void* work(void* argument) {
  const Share* share = argument;
  for (int64_t i = share->from; i < share->to; ++i) share->turn(share->arguments, i, share->worker);
  return NULL;
}

void tilec_parallel_for(
    int64_t count, int64_t workers, void (*turn)(void* arguments, int64_t i, int64_t worker), void* arguments) {
  Share shares[THREADS];
  pthread_t threads[THREADS];
  int64_t n = workers < THREADS ? workers : THREADS;
  int started = 1;
  for (int64_t t = 0; t < n; ++t) shares[t] = (Share){count * t / n, count * (t + 1) / n, t, turn, arguments};
  while (started < n && pthread_create(&threads[started], NULL, work, &shares[started]) == 0) ++started;
  work(&shares[0]);
  for (int64_t t = started; t < n; ++t) work(&shares[t]); /* the system has no more threads */
  for (int t = 1; t < started; ++t) pthread_join(threads[t], NULL);
}
