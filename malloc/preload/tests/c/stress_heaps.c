/*
 * Heaps and groups that are born and go all the time, with a pattern in every object:
 *
 *     stress_heaps SEED THREADS ROUNDS
 *
 * Each round of a thread makes a heap in a group that it has just made, fills it, frees, resizes
 * and resets some of it, and ends both. Objects of shared heaps, and those that malloc has handed
 * out inside groups which are gone by then, go to other threads, which free them.
 */
#include "check.h"
#include <pthread.h>
#include <quarry.h>
#include <stdatomic.h>

enum { MOST = 200, PLACES = 256, SHARED = 4 };

struct object {
    uint64_t size;
    unsigned char bytes[];
};

static _Atomic(struct object *) places[PLACES];
static quarry_heap *shared[SHARED];
static long seed, rounds;
static int above;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static size_t size_of(uint64_t *state)
{
    uint64_t chance = next(state);
    size_t most = chance % 100 == 0 ? 100000 : chance % 10 == 0 ? 5000 : 300;
    return sizeof(struct object) + next(state) % most;
}

static struct object *filled(void *memory, size_t size)
{
    struct object *object = (struct object *)memory;
    if (object != NULL) {
        object->size = size;
        pattern_fill(object->bytes, size - sizeof(*object), size);
    }
    return object;
}

static void check_and_free(struct object *object)
{
    if (object == NULL)
        return;
    CHECK_PATTERN(object->bytes, object->size - sizeof(*object), object->size);
    free(object);
}

/* Puts an object where another thread may find it, and frees the one that was there. */
static void pass(uint64_t *state, struct object *object)
{
    check_and_free(atomic_exchange(&places[next(state) % PLACES], object));
}

static void fill(uint64_t *state, quarry_heap *heap)
{
    struct object *objects[MOST];
    size_t count = next(state) % MOST;
    for (size_t i = 0; i < count; i++) {
        size_t size = size_of(state);
        objects[i] = filled(quarry_heap_malloc(heap, size), size);
    }
    for (size_t i = 0; i < count; i++) {
        if (objects[i] == NULL)
            continue;
        CHECK_PATTERN(objects[i]->bytes, objects[i]->size - sizeof(**objects), objects[i]->size);
        uint64_t chance = next(state) % 4;
        if (chance == 0) {
            free(objects[i]);
        } else if (chance == 1) {
            size_t size = size_of(state);
            void *moved = realloc(objects[i], size);
            CHECK(moved == NULL || filled(moved, size)->size == size, "it was resized");
        }
    }
    if (next(state) % 3 == 0)
        quarry_heap_reset(heap);
}

static void round_of(uint64_t *state)
{
    quarry_group_limits limits = {0, SIZE_MAX, 2 * MIB, SIZE_MAX, 0};
    int group = quarry_group_create(next(state) % 2 == 0 ? above : 0, "stress", &limits);
    quarry_heap *heap = quarry_heap_create_in(group, "stress", next(state) % 2 * MIB);
    CHECK(group > 0 && heap != NULL, "there is memory");
    fill(state, heap);
    int before = quarry_group_enter(group);
    for (uint64_t i = next(state) % 20; i > 0; i--) {
        size_t size = size_of(state);
        pass(state, filled(malloc(size), size));
    }
    CHECK(quarry_group_leave(before) == 0, "back");
    for (uint64_t i = next(state) % 20; i > 0; i--) {
        size_t size = size_of(state);
        pass(state, filled(quarry_heap_malloc(shared[next(state) % SHARED], size), size));
    }
    quarry_heap_destroy(heap);
    CHECK(quarry_group_destroy(group) == 0, "no thread is inside");
}

static void *work(void *number)
{
    uint64_t state = (uint64_t)seed * 1000 + (uint64_t)(uintptr_t)number;
    for (long round = 0; round < rounds; round++)
        round_of(&state);
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[64];
    CHECK(count == 4, "three arguments");
    seed = atol(arguments[1]);
    long many = atol(arguments[2]);
    rounds = atol(arguments[3]);
    above = quarry_group_create(0, "above", NULL);
    for (int i = 0; i < SHARED; i++)
        shared[i] = quarry_heap_create_in(above, "shared", 0);
    for (long i = 0; i < many; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
    for (long i = 0; i < many; i++)
        pthread_join(threads[i], NULL);
    check_heap("with objects of groups that are gone");
    for (int i = 0; i < PLACES; i++)
        check_and_free(atomic_exchange(&places[i], NULL));
    for (int i = 0; i < SHARED; i++) {
        CHECK(quarry_heap_used(shared[i]) == 0, "%zu bytes remain", quarry_heap_used(shared[i]));
        quarry_heap_destroy(shared[i]);
    }
    CHECK(quarry_group_used(above) == 0 && quarry_group_destroy(above) == 0, "nothing is charged");
    check_heap("at the end");
    return 0;
}
