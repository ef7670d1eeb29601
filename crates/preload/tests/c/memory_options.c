/*
 * usage: memory_options at-once|never|no-thread|small|trim
 * What QUARRY_PURGE_DELAY and QUARRY_BACKGROUND promise, what a small program may expect, and what
 * malloc_trim gives back.
 */
#include "memory.h"

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

/* Freed memory is gone when free returns, but for what the caches keep for the next request. */
static void at_once(void)
{
    come_and_go(256 * MIB);
    CHECK(grown() <= 24 * MIB, "%zu bytes kept with PURGE_DELAY=0", grown());
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

/* Without a thread, whoever frees gives back what has been free for the delay, down to 32 MiB. */
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
    for (int i = 0; i < 50; i++)
        come_and_go(20 * MIB);
    CHECK(threads_now() == 1, "%u threads for 20 MiB", threads_now());
    come_and_go(256 * MIB);
    CHECK(testing_a_peer() || threads_now() == 2, "%u threads for 256 MiB", threads_now());
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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"at-once", at_once}, {"never", never}, {"no-thread", no_thread},
                 {"small", small},     {"trim", trim}};
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
