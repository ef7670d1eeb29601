/* A burst of the heap beside a page cache and a shrinker: both give way in proportion. The argument
 * is the size of the burst's requests. */
#include "quarry.h"
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "deadline.h"

#define SIZE 3000

static struct object {
  struct object *next;
} *objects;
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t count_objects(void *context) {
  (void)context;
  return __atomic_load_n(&count, __ATOMIC_SEQ_CST);
}

static size_t scan(void *context, size_t most, size_t *scanned) {
  (void)context;
  (void)scanned;
  size_t freed = 0;
  pthread_mutex_lock(&lock);
  for (; freed < most && objects; freed++) {
    struct object *object = objects;
    objects = object->next;
    free(object);
  }
  __atomic_sub_fetch(&count, freed, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&lock);
  return freed;
}

static unsigned long file_size(void *context) {
  (void)context;
  return 1ul << 30;
}

static long file_read(void *context, unsigned long offset, void *bytes, size_t count) {
  (void)context;
  memset(bytes, (int)(offset / PAGE % 251), count);
  return (long)count;
}

static quarry_budget read_budget(void) {
  quarry_budget budget;
  assert(quarry_budget_read(&budget, sizeof budget) == 0);
  return budget;
}

int main(int argc, char **argv) {
  size_t request = argc > 1 ? strtoul(argv[1], NULL, 0) : 50000;
  assert(quarry_set_limit(96 * MIB) == 0);
  quarry_shrinker shrinker = {count_objects, scan, 2, 0, SIZE};
  quarry_registration *registered = quarry_shrinker_register(&shrinker, NULL);
  quarry_backing backing = {sizeof backing, NULL, file_size, file_read, NULL, NULL, NULL};
  quarry_mapping *file = quarry_mapping_open(&backing, 0);
  assert(registered && file);
  for (; count < 40 * MIB / SIZE; count++) {
    struct object *object = malloc(SIZE);
    assert(object);
    memset(object, 1, SIZE);
    object->next = objects;
    objects = object;
  }
  for (unsigned long index = 0;; index++) {
    quarry_budget budget = read_budget();
    if (budget.limit - budget.used < budget.high + MIB)
      break;
    quarry_page *page = quarry_page_read(file, index);
    assert(page);
    quarry_page_unpin(page);
  }
  double pages = (double)quarry_mapping_pages(file), all = (double)count;
  size_t bytes = 0;
  while (bytes < 60 * MIB) {
    char *block = malloc(request);
    assert(block);
    memset(block, 1, request);
    bytes += request;
  }
  double kept = (double)quarry_mapping_pages(file) / pages;
  double kept_objects = (double)count_objects(NULL) / all;
  fprintf(stderr, "%.2f of pages, %.2f of objects at the end of the burst\n", kept, kept_objects);
  /* The balance goes on, and what it takes from the objects is free for pages. */
  deadline(60, "shrinkers do not pay");
  for (;; sched_yield()) {
    quarry_budget budget = read_budget();
    double room = budget.limit - budget.used > budget.high
                      ? (double)(budget.limit - budget.used - budget.high) / PAGE
                      : 0;
    kept = ((double)quarry_mapping_pages(file) + room) / pages;
    kept_objects = (double)count_objects(NULL) / all;
    /* Requests may have evicted pages while the background had no CPU, or the other way round. */
    if (kept > kept_objects / 2 && kept_objects > kept / 2)
      break;
  }
  fprintf(stderr, "%.2f of pages, %.2f of objects after it\n", kept, kept_objects);
  quarry_unregister(registered);
  puts("done");
  return 0;
}
