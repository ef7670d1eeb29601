/*
 * Threads with a cancellation pending allocate and free: none of these calls is a cancellation
 * point, or a thread would vanish while the allocator holds a lock. They end where they say so.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 10, THREADS = 24, STEPS = 1500 };

static atomic_int survived;

static void work(uint64_t number)
{
    enum { SLOTS = 64 };
    void *slots[SLOTS] = {NULL};
    uint64_t random = number << 32;
    for (int step = 0; step < STEPS; step++) {
        void **slot = &slots[next_random(&random) % SLOTS];
        size_t size = random_size(&random, step % 100 == 0 ? MIB : 3000);
        switch (step % 8) {
        case 0:
            *slot = realloc(*slot, size);
            break;
        case 1:
            free(*slot);
            *slot = calloc(1, size);
            break;
        case 2:
            free(*slot);
            *slot = aligned_alloc(64, size);
            break;
        default:
            free(*slot);
            *slot = malloc(size);
        }
        CHECK(*slot != NULL, "no memory for %zu bytes", size);
        memset(*slot, 1, size);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
    malloc_trim(0);
}

static void *cancelled(void *number)
{
    CHECK(pthread_cancel(pthread_self()) == 0, "pthread_cancel");
    work((uint64_t)(uintptr_t)number);
    atomic_fetch_add(&survived, 1);
    pthread_testcancel();
    CHECK(0, "the cancellation was lost");
}

int main(void)
{
    require_quarry();
    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            void *number = (void *)(round * THREADS + i);
            CHECK(pthread_create(&threads[i], NULL, cancelled, number) == 0, "pthread_create");
        }
        for (size_t i = 0; i < THREADS; i++) {
            void *result = NULL;
            CHECK(pthread_join(threads[i], &result) == 0, "pthread_join");
            CHECK(result == PTHREAD_CANCELED, "a thread ended with %p", result);
        }
        CHECK(survived == (int)((round + 1) * THREADS), "%d of %zu threads came to their end",
              survived, (round + 1) * THREADS);
    }
    return 0;
}
