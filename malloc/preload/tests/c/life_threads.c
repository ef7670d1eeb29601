/*
 * 10,000 short threads: each allocates, frees objects that dead threads left, and leaves some
 * itself. They end by return, pthread_exit or cancellation; some are detached.
 */
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { THREADS = 10000, AT_ONCE = 50, LEFT = 256, OBJECTS = 40 };

struct object {
    size_t size;
    uint64_t seed;
    unsigned char contents[];
};

static _Atomic(struct object *) left[LEFT];
static atomic_int ended;
static sem_t detached_ended;

static struct object *create(uint64_t *random)
{
    size_t size = random_size(random, next_random(random) % 64 == 0 ? 200000 : 4000);
    struct object *object = malloc(sizeof(*object) + size);
    CHECK(object != NULL, "malloc(%zu)", sizeof(*object) + size);
    object->size = size;
    object->seed = next_random(random);
    pattern_fill(object->contents, size, object->seed);
    return object;
}

static void destroy(struct object *object)
{
    if (object == NULL)
        return;
    CHECK_PATTERN(object->contents, object->size, object->seed);
    free(object);
}

static void work(uint64_t number)
{
    uint64_t random = number << 32;
    struct object *own[OBJECTS];
    for (size_t i = 0; i < OBJECTS; i++)
        own[i] = create(&random);
    for (size_t i = 0; i < OBJECTS; i++)
        destroy(i % 4 == 0 ? atomic_exchange(&left[next_random(&random) % LEFT], own[i]) : own[i]);
}

static void *short_life(void *number)
{
    work((uint64_t)(uintptr_t)number);
    atomic_fetch_add(&ended, 1);
    if ((uintptr_t)number % 3 == 0)
        pthread_exit(number);
    return number;
}

static void *detached_life(void *number)
{
    work((uint64_t)(uintptr_t)number);
    atomic_fetch_add(&ended, 1);
    sem_post(&detached_ended);
    return NULL;
}

static void free_at_cancel(void *object)
{
    destroy(object);
    atomic_fetch_add(&ended, 1);
}

static void *cancelled_life(void *number)
{
    uint64_t random = (uint64_t)(uintptr_t)number << 32;
    work((uint64_t)(uintptr_t)number);
    pthread_cleanup_push(free_at_cancel, create(&random));
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    return NULL;
}

static void start(pthread_t *thread, size_t number)
{
    void *(*life)(void *) = number % 10 == 9  ? detached_life
                            : number % 10 == 4 ? cancelled_life
                                               : short_life;
    int error = pthread_create(thread, NULL, life, (void *)(uintptr_t)number);
    CHECK(error == 0, "pthread_create: %s", strerror(error));
    if (life == detached_life)
        pthread_detach(*thread);
    if (life == cancelled_life)
        pthread_cancel(*thread);
}

int main(void)
{
    require_quarry();
    sem_init(&detached_ended, 0, 0);
    size_t before = 0;
    for (size_t number = 0; number < THREADS; number += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++)
            start(&threads[i], number + i);
        for (size_t i = 0; i < AT_ONCE; i++) {
            if ((number + i) % 10 == 9)
                sem_wait(&detached_ended);
            else
                CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
        }
        if (number == THREADS / 10)
            before = resident_bytes();
    }
    CHECK(ended == THREADS, "%d threads ended", ended);
    for (size_t i = 0; i < LEFT; i++)
        destroy(left[i]);
    size_t after = resident_bytes();
    CHECK(after < before + 64 * MIB, "threads leak: resident %zu, then %zu", before, after);
    return 0;
}
