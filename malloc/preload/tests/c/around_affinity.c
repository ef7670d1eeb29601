/*
 * While threads allocate, the CPUs on which they may run change from all to one and back, for
 * single threads and for the whole process. There may be many more threads than slots.
 * usage: around_affinity THREADS STEPS
 */
#include "deadline.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static cpu_set_t all;
static pthread_t *threads;
static size_t count;
static int steps;
static pthread_barrier_t everybody;
static atomic_int left;
/* Objects change threads through these. */
static _Atomic(uint64_t *) passed[64];

static int nth_cpu(unsigned n)
{
    for (int cpu = 0;; cpu = (cpu + 1) % CPU_SETSIZE)
        if (CPU_ISSET(cpu, &all) && n-- == 0)
            return cpu;
}

static void narrow(pthread_t thread, uint64_t draw)
{
    cpu_set_t set = all;
    if (draw % 2 == 0) {
        CPU_ZERO(&set);
        CPU_SET(nth_cpu((unsigned)(draw >> 8) % (unsigned)CPU_COUNT(&all)), &set);
    }
    CHECK(pthread_setaffinity_np(thread, sizeof(set), &set) == 0, "pthread_setaffinity_np");
}

/* The first word of an object holds its size, the rest is a pattern of it. */
static void pass(uint64_t *object, uint64_t draw)
{
    object = atomic_exchange(&passed[draw % LENGTH(passed)], object);
    if (object == NULL)
        return;
    CHECK_PATTERN(object + 1, *object - 8, *object);
    free(object);
}

static void *allocate(void *number)
{
    uint64_t random = (uint64_t)(uintptr_t)number << 32;
    pthread_barrier_wait(&everybody);
    for (int step = 0; step < steps; step++) {
        uint64_t draw = next_random(&random);
        size_t size = 16 + random_size(&random, draw % 128 == 0 ? 500000 : 2000);
        uint64_t *object = malloc(size);
        CHECK(object != NULL, "malloc(%zu)", size);
        *object = size;
        pattern_fill(object + 1, size - 8, size);
        pass(object, draw >> 8);
        if (draw >> 40 & 63)
            continue;
        narrow(pthread_self(), draw >> 48);
    }
    atomic_fetch_sub(&left, 1);
    return number;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: %s THREADS STEPS", argv[0]);
    require_quarry();
    deadline(80, "threads that move from CPU to CPU");
    count = strtoul(argv[1], NULL, 10);
    steps = atoi(argv[2]);
    left = (int)count;
    CHECK(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity");
    threads = calloc(count, sizeof(*threads));
    CHECK(pthread_barrier_init(&everybody, NULL, (unsigned)count + 1) == 0, "barrier");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * KIB);
    for (size_t i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], &attributes, allocate, (void *)i) == 0, "thread %zu", i);
    /* All threads are alive at once. */
    pthread_barrier_wait(&everybody);
    uint64_t random = 77;
    while (atomic_load(&left) > 0) {
        narrow(pthread_self(), next_random(&random));
        sched_yield();
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < LENGTH(passed); i++)
        pass(NULL, i);
    free(threads);
    return 0;
}
