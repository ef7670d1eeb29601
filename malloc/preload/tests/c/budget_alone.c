/* Without a background thread, a shrinker is called only inside quarry_reclaim and
 * quarry_limit_wait, on the caller's thread. */
#include "quarry.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 40000
static void *buffers[MOST];
static size_t held, calls;
static int may_be_called;

static size_t count(void *context) {
  assert(context == buffers && may_be_called);
  return held;
}

static size_t scan(void *context, size_t objects, size_t *scanned) {
  size_t freed = 0;
  assert(context == buffers && may_be_called && *scanned == objects);
  calls++;
  while (freed < objects && held > 0) {
    free(buffers[--held]);
    freed++;
  }
  return freed;
}

static void fill(void) {
  while (held < MOST && (buffers[held] = malloc(2000)))
    memset(buffers[held++], 1, 2000);
}

int main(void) {
  quarry_shrinker shrinker = {count, scan, 2, 0, 2000};
  assert(quarry_set_limit((size_t)64 << 20) == 0);
  quarry_registration *registered = quarry_shrinker_register(&shrinker, buffers);
  assert(registered);
  fill();
  assert(held < MOST && calls == 0);
  may_be_called = 1;
  size_t before = held, freed = quarry_reclaim((size_t)8 << 20);
  assert(freed >= (size_t)8 << 20 && held < before && calls > 0);
  assert(held * 2000 > (size_t)30 << 20);
  may_be_called = 0;
  fill();
  assert(quarry_set_limit((size_t)16 << 20) == 0);
  may_be_called = 1;
  assert(quarry_limit_wait(20000) == 0);
  quarry_budget budget;
  assert(quarry_budget_read(&budget, sizeof budget) == 0 && budget.used <= (size_t)16 << 20);
  quarry_unregister(registered);
  may_be_called = 0;
  /* Nothing reclaimable is left: the calls fail with defined errors. */
  fill();
  assert(quarry_set_limit((size_t)1 << 20) == 0);
  assert(quarry_limit_wait(10) == -1 && errno == ETIMEDOUT);
  assert(!malloc(100000) && errno == ENOMEM);
  while (held > 0)
    free(buffers[--held]);
  assert(quarry_limit_wait(20000) == 0);
  puts("done");
  return 0;
}
