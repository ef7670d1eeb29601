/* One budget for a heap and a cache of the program: shrinkers on the background thread, pressure,
 * a limit that is halved under load, forks while memory is reclaimed. */
#include "quarry.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* A cache of buffers, oldest first. */
struct cache {
  pthread_mutex_t lock;
  struct buffer *oldest, *newest;
  size_t count, size, freed;
};
struct buffer {
  struct buffer *next;
};

static __thread int is_in_malloc;

static size_t count(void *context) {
  struct cache *cache = context;
  assert(!is_in_malloc);
  pthread_mutex_lock(&cache->lock);
  size_t count = cache->count;
  pthread_mutex_unlock(&cache->lock);
  return count;
}

static size_t drop(struct cache *cache, size_t most) {
  size_t freed = 0;
  while (freed < most && cache->oldest) {
    struct buffer *buffer = cache->oldest;
    cache->oldest = buffer->next;
    if (!cache->oldest)
      cache->newest = NULL;
    cache->count--;
    free(buffer);
    freed++;
  }
  return freed;
}

static size_t scan(void *context, size_t objects, size_t *scanned) {
  struct cache *cache = context;
  assert(!is_in_malloc && *scanned == objects);
  /* A shrinker may allocate. */
  char *note = malloc(100);
  pthread_mutex_lock(&cache->lock);
  size_t freed = drop(cache, objects);
  cache->freed += freed;
  pthread_mutex_unlock(&cache->lock);
  free(note);
  return freed;
}

static int add(struct cache *cache) {
  is_in_malloc = 1;
  struct buffer *buffer = malloc(cache->size);
  is_in_malloc = 0;
  if (!buffer)
    return 0;
  memset(buffer, 1, cache->size);
  buffer->next = NULL;
  pthread_mutex_lock(&cache->lock);
  if (cache->newest)
    cache->newest->next = buffer;
  else
    cache->oldest = buffer;
  cache->newest = buffer;
  cache->count++;
  pthread_mutex_unlock(&cache->lock);
  return 1;
}

static int levels;
static void tell(void *context, int level) {
  assert(context == &levels && level >= QUARRY_PRESSURE_NONE && level <= QUARRY_PRESSURE_CRITICAL);
  __atomic_fetch_or(&levels, 1 << level, __ATOMIC_SEQ_CST);
}

static quarry_budget read_budget(void) {
  quarry_budget budget;
  assert(quarry_budget_read(&budget, sizeof budget) == 0);
  return budget;
}

static int over;
static void *load(void *context) {
  while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST))
    add(context);
  return NULL;
}

/* A child has no thread of Quarry's, but a whole budget. */
static void fork_once(struct cache *caches) {
  for (int i = 0; i < 2; i++)
    pthread_mutex_lock(&caches[i].lock);
  pid_t child = fork();
  for (int i = 0; i < 2; i++)
    pthread_mutex_unlock(&caches[i].lock);
  assert(child >= 0);
  if (child == 0) {
    alarm(60);
    size_t before = count(&caches[0]) + count(&caches[1]);
    assert(quarry_reclaim(32 * MIB) > 16 * MIB);
    assert(count(&caches[0]) + count(&caches[1]) < before);
    for (int i = 0; i < 1000; i++)
      free(malloc(5000));
    _exit(0);
  }
  int status;
  assert(waitpid(child, &status, 0) == child);
  assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  static struct cache caches[2] = {{PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, 2000, 0},
                                   {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, 9000, 0}};
  assert(quarry_set_limit(128 * MIB) == 0 && quarry_set_marks(SIZE_MAX, 200) == 0);
  assert(quarry_set_marks(0, 0) == -1 && errno == EINVAL);
  assert(quarry_set_marks(128 * MIB + 1, 200) == -1 && errno == EINVAL);
  quarry_budget budget = read_budget();
  assert(budget.limit == 128 * MIB && budget.min < budget.low && budget.low < budget.high);
  quarry_shrinker shrinker = {count, scan, 2, 0, 0};
  quarry_registration *registered[2];
  for (int i = 0; i < 2; i++) {
    shrinker.object_bytes = caches[i].size;
    registered[i] = quarry_shrinker_register(&shrinker, &caches[i]);
    assert(registered[i]);
  }
  assert(!quarry_shrinker_register(NULL, NULL) && errno == EINVAL);
  quarry_registration *told = quarry_pressure_register(tell, &levels);
  assert(told);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert(pthread_create(&threads[i], NULL, load, &caches[i]) == 0);
  /* Each cache has given something. */
  while (!__atomic_load_n(&caches[0].freed, __ATOMIC_SEQ_CST) ||
         !__atomic_load_n(&caches[1].freed, __ATOMIC_SEQ_CST))
    sched_yield();
  for (int i = 0; i < 10; i++)
    fork_once(caches);
  /* The limit is halved, twice, under load. */
  for (size_t limit = 64 * MIB; limit >= 32 * MIB; limit /= 2) {
    assert(quarry_set_limit(limit) == 0);
    assert(quarry_limit_wait(20000) == 0);
  }
  __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 2; i++)
    assert(pthread_join(threads[i], NULL) == 0);
  assert(__atomic_load_n(&levels, __ATOMIC_SEQ_CST) & 1 << QUARRY_PRESSURE_LOW);
  budget = read_budget();
  assert(budget.used <= 32 * MIB && budget.slab_unreclaimable > 0 && budget.metadata > 0);
  /* Between the low and the high mark no reclaim is due. */
  do {
    assert(add(&caches[0]));
    budget = read_budget();
  } while (budget.limit - budget.used >= budget.low);
  /* From below the low mark, the background thread reaches the high mark without a further call. */
  for (;;) {
    budget = read_budget();
    if (budget.limit - budget.used >= budget.high)
      break;
    sched_yield();
  }
  assert(budget.available >= budget.high - budget.min);
  quarry_unregister(told);
  for (int i = 0; i < 2; i++) {
    quarry_unregister(registered[i]);
    drop(&caches[i], SIZE_MAX);
  }
  quarry_unregister(NULL);
  quarry_group_limits limits = {0, SIZE_MAX, MIB, SIZE_MAX, 0};
  int group = quarry_group_create(0, "part", &limits);
  assert(group > 0 && quarry_group_used(group) == 0 && quarry_group_limit(group, &limits) == 0);
  quarry_group_limits nonsense = {2 * MIB, SIZE_MAX, MIB, SIZE_MAX, 0};
  assert(quarry_group_limit(group, &nonsense) == -1 && errno == EINVAL);
  assert(quarry_group_create(0, "part", &nonsense) == -1 && errno == EINVAL);
  assert(quarry_group_destroy(group) == 0);
  assert(quarry_group_destroy(group) == -1 && errno == EINVAL);
  /* No limits. */
  group = quarry_group_create(0, "", NULL);
  assert(group > 0 && quarry_group_limit(group, NULL) == 0 && quarry_group_destroy(group) == 0);
  assert(quarry_set_limit(SIZE_MAX) == 0);
  assert(quarry_set_marks((size_t)1 << 60, 3000) == -1 && errno == EINVAL);
  puts("done");
  return 0;
}
