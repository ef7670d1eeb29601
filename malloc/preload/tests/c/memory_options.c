/*
 * usage: memory_options at-once|never|no-thread|small|trim|late|early|worker
 * Checks the promises of QUARRY_PURGE_DELAY, QUARRY_BACKGROUND and malloc_trim, and when the
 * background thread starts.
 */
#include "memory.h"

#include <pthread.h>
#include <sys/single_threaded.h>

static size_t before;

static size_t grown(void)
{
    size_t now = resident_bytes();
    return now > before ? now - before : 0;
}

/* Allocates and frees mixed objects of `bytes` bytes together. */
static void come_and_go(size_t bytes)
{
    uint64_t random = 7;
    struct objects objects = room_for(1u << 20);
    while (objects.bytes < bytes)
        add_object(&objects, same_count(&random, 16, MIB));
    CHECK(grown() >= bytes, "only %zu bytes resident", grown());
    shuffle(&objects, &random);
    for (size_t i = 0; i < objects.count; i++)
        free_object(&objects, i);
    munmap(objects.all, objects.most * sizeof(struct object));
}

/*
 * Freed memory has gone back when free returns, except what caches keep for the next request; at
 * rest that goes back as well. Only a hang takes as long as this waits.
 */
static void at_once(void)
{
    come_and_go(256 * MIB);
    CHECK(grown() <= 24 * MIB, "%zu bytes kept with PURGE_DELAY=0", grown());
    double start = seconds_now();
    while (grown() > 4 * MIB && seconds_now() - start < 40)
        nap_ms(20);
    CHECK(grown() <= 4 * MIB, "%zu bytes kept at rest with PURGE_DELAY=0", grown());
}

static void never(void)
{
    come_and_go(256 * MIB);
    CHECK(threads_now() == 1, "%u threads", threads_now());
    nap_ms(2000);
    CHECK(grown() >= 200 * MIB, "only %zu bytes kept with PURGE_DELAY=-1", grown());
    CHECK(malloc_trim(0) == 1, "malloc_trim found nothing");
    CHECK(grown() <= 3 * MIB, "%zu bytes kept after malloc_trim", grown());
}

/* Without a background thread, calls of free give back memory that was free for the delay, until 32
 * MiB are left. */
static void no_thread(void)
{
    come_and_go(256 * MIB);
    CHECK(threads_now() == 1, "%u threads", threads_now());
    double start = seconds_now();
    while (grown() > 48 * MIB && seconds_now() - start < 20) {
        nap_ms(10);
        come_and_go(2 * MIB);
    }
    CHECK(grown() <= 48 * MIB, "%zu bytes kept by a program that goes on freeing", grown());
    CHECK(threads_now() == 1, "%u threads", threads_now());
}

static void small(void)
{
    for (int i = 0; i < 1000; i++)
        free(malloc(2 * MIB));
    CHECK(threads_now() == 1, "%u threads for 2 MiB", threads_now());
    for (size_t bytes = 16 * MIB; bytes <= 256 * MIB; bytes *= 16) {
        come_and_go(bytes);
        /* A thread that the C library does not know gives these back, and ends. */
        CHECK(testing_a_peer() || __libc_single_threaded, "several threads for %zu bytes", bytes);
        while (threads_now() != 1)
            nap_ms(1);
        CHECK(testing_a_peer() || grown() <= 3 * MIB, "%zu of %zu bytes kept", grown(), bytes);
    }
}

static void trim(void)
{
    come_and_go(512 * MIB);
    malloc_trim(0);
    CHECK(grown() <= 3 * MIB, "%zu bytes kept after malloc_trim", grown());
    CHECK(malloc_trim(0) == 0, "malloc_trim gives back twice");
    come_and_go(64 * MIB);
    CHECK(malloc_trim(0) == 1, "nothing given back of memory that was used again");
    CHECK(grown() <= 3 * MIB, "%zu bytes kept after the second malloc_trim", grown());
}

/*
 * A thread frees these objects after the barrier, and does nothing else. In a process with several
 * threads no call of free starts the background thread, so that thread must exist before.
 */
static struct objects handed_over;
static pthread_barrier_t may_free;

static void *free_only(void *unused)
{
    pthread_barrier_wait(&may_free);
    for (size_t i = 0; i < handed_over.count; i++)
        free_object(&handed_over, i);
    return unused;
}

static pthread_t start_freeing_thread(void)
{
    pthread_t thread;
    CHECK(pthread_barrier_init(&may_free, NULL, 2) == 0, "barrier");
    CHECK(pthread_create(&thread, NULL, free_only, NULL) == 0, "thread");
    return thread;
}

static void grow_for_others(size_t bytes)
{
    uint64_t random = 11;
    handed_over = room_for(1u << 20);
    while (handed_over.bytes < bytes)
        add_object(&handed_over, same_count(&random, 16, MIB));
}

/* The program calls nothing after the frees; only a hang takes as long as this waits. */
static void all_goes_back(pthread_t thread)
{
    pthread_barrier_wait(&may_free);
    CHECK(pthread_join(thread, NULL) == 0, "join");
    size_t table = table_bytes(&handed_over);
    double start = seconds_now();
    while (grown() > 8 * MIB + table && seconds_now() - start < 40)
        nap_ms(20);
    CHECK(grown() <= 8 * MIB + table, "%zu bytes kept after a thread freed all", grown());
}

/* The heap grows with one thread; a second one frees it. */
static void late(void)
{
    grow_for_others(96 * MIB);
    CHECK(threads_now() == 1, "%u threads in a program that has freed nothing", threads_now());
    pthread_t thread = start_freeing_thread();
    CHECK(testing_a_peer() || threads_now() == 3, "%u threads beside growth", threads_now());
    all_goes_back(thread);
}

/* The heap grows while there are two threads. */
static void early(void)
{
    pthread_t thread = start_freeing_thread();
    CHECK(threads_now() == 2, "%u threads in a small program", threads_now());
    grow_for_others(96 * MIB);
    CHECK(testing_a_peer() || threads_now() == 3, "%u threads after growth", threads_now());
    all_goes_back(thread);
}

/* A worker of a server: two threads and a request of 24 MiB, as each of twenty processes has. */
static void worker(void)
{
    pthread_t thread = start_freeing_thread();
    grow_for_others(24 * MIB);
    CHECK(testing_a_peer() || threads_now() == 3, "%u threads after growth", threads_now());
    all_goes_back(thread);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"at-once", at_once}, {"never", never}, {"no-thread", no_thread},
                 {"small", small},     {"trim", trim},   {"late", late},
                 {"early", early},     {"worker", worker}};
    CHECK(argc == 2, "usage: %s CASE", argv[0]);
    require_quarry();
    before = resident_bytes();
    for (size_t i = 0; i < LENGTH(cases); i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    CHECK(0, "no case %s", argv[1]);
}
