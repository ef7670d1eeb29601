/* 10,000 threads of a pool that come and go, each with a working set of its own: no growth. */
#include "memory.h"

#include <pthread.h>

enum { THREADS = 10000, AT_ONCE = 20, OBJECTS = 200 };

/* How far the threads of a batch overlap is chance, but for the first tenth, which all overlap. */
static pthread_barrier_t have_all;

static void *short_life(void *number)
{
    uint64_t random = (uint64_t)(uintptr_t)number << 20;
    struct object own[OBJECTS];
    for (size_t i = 0; i < OBJECTS; i++) {
        own[i].size = same_count(&random, 16, 16 * KIB);
        own[i].start = malloc(own[i].size);
        CHECK(own[i].start != NULL, "malloc(%zu)", own[i].size);
        memset(own[i].start, 1, own[i].size);
    }
    if ((uintptr_t)number < THREADS / 10)
        pthread_barrier_wait(&have_all);
    for (size_t i = 0; i < OBJECTS; i++)
        free(own[i].start);
    return number;
}

int main(void)
{
    require_quarry();
    CHECK(pthread_barrier_init(&have_all, NULL, AT_ONCE) == 0, "barrier");
    size_t early = 0;
    for (size_t number = 0; number < THREADS; number += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++) {
            int error = pthread_create(&threads[i], NULL, short_life, (void *)(number + i));
            CHECK(error == 0, "pthread_create: %s", strerror(error));
        }
        for (size_t i = 0; i < AT_ONCE; i++)
            CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
        if (number == THREADS / 10)
            early = peak_bytes();
    }
    size_t late = peak_bytes();
    printf("peak %zu KiB after a tenth of the threads, %zu after all\n", early / KIB, late / KIB);
    CHECK(late <= early + 3 * MIB, "peak %zu, then %zu", early, late);
    return 0;
}
