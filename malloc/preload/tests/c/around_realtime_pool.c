/*
 * usage: around_realtime_pool MIB large|small|mixed [threads] [late]
 * The recipe of real-time programs: keep everything, lock everything, touch a pool, free it. From
 * then on requests that fit into the pool take no page fault. Exits with 77 and a reason where it
 * may not lock.
 */
#include "memory.h"

#include <malloc.h>
#include <pthread.h>

static size_t pool_bytes;

static void reserve_pool(const char *how)
{
    if (strcmp(how, "large") == 0) {
        free(memset(opaque(malloc(pool_bytes)), 1, pool_bytes));
        return;
    }
    size_t size = strcmp(how, "small") == 0 ? 1000 : 300000, count = pool_bytes / size;
    struct objects objects = room_for(count);
    for (size_t i = 0; i < count; i++)
        add_object(&objects, size);
    for (size_t i = 0; i < count; i++)
        free_object(&objects, i);
    munmap(objects.all, objects.most * sizeof(struct object));
}

/* Allocates and frees small, medium and large objects, at most `most` bytes at a time. */
static void work(uint64_t seed, size_t most, int rounds)
{
    enum { SLOTS = 64 };
    static __thread struct object held[SLOTS];
    size_t bytes = 0;
    for (int round = 0; round < rounds; round++) {
        struct object *slot = &held[next_random(&seed) % SLOTS];
        free(slot->start);
        bytes -= slot->size;
        *slot = (struct object){NULL, 0};
        size_t size = random_size(&seed, most / 2);
        if (bytes + size > most)
            continue;
        slot->start = round % 5 == 0 ? calloc(1, size) : malloc(size);
        slot->size = size;
        CHECK(slot->start != NULL, "malloc(%zu)", size);
        memset(slot->start, round, size);
        bytes += size;
        if (round % 7 == 0 && bytes + size <= most) {
            slot->start = realloc(slot->start, size + size / 2 + 1);
            CHECK(slot->start != NULL, "realloc");
            bytes += size / 2 + 1;
            slot->size += size / 2 + 1;
        }
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(held[i].start);
    memset(held, 0, sizeof(held));
}

/* Sizes that the pool did not have need bookkeeping, for which Quarry may map 512 KiB once: the
 * kernel populates them at once, and counts a fault for each page. */
static void check_faults(long faults, const char *where, unsigned number)
{
    static long room = 512 * KIB / PAGE;
    CHECK(faults <= room, "%ld page faults in %s %u", faults, where, number);
    room = faults > 0 ? 0 : room;
}

static pthread_barrier_t may_work, have_worked;

static void *worker(void *number)
{
    long *faults = number;
    pthread_barrier_wait(&may_work);
    long before = minor_faults();
    work((uint64_t)*faults + 1, pool_bytes / 16, 3000);
    *faults = minor_faults() - before;
    pthread_barrier_wait(&have_worked);
    return NULL;
}

static void start_workers(pthread_t *threads, long *faults, unsigned count)
{
    CHECK(pthread_barrier_init(&may_work, NULL, count + 1) == 0, "barrier");
    CHECK(pthread_barrier_init(&have_worked, NULL, count + 1) == 0, "barrier");
    for (unsigned i = 0; i < count; i++) {
        faults[i] = i;
        CHECK(pthread_create(&threads[i], NULL, worker, &faults[i]) == 0, "thread");
    }
}

static int lock_all(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) == 0)
        return 1;
    printf("mlockall: %s\n", strerror(errno));
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3, "usage: %s MIB HOW", argv[0]);
    require_quarry();
    pool_bytes = (size_t)atol(argv[1]) * MIB;
    int has_threads = argc > 3 && strcmp(argv[3], "threads") == 0;
    int is_late = argc > 3 && strcmp(argv[3], "late") == 0;
    if (is_late)
        free(memset(opaque(malloc(40 * MIB)), 1, 40 * MIB));
    CHECK(mallopt(M_TRIM_THRESHOLD, -1) == 1, "M_TRIM_THRESHOLD");
    CHECK(mallopt(M_MMAP_MAX, 0) == 1, "M_MMAP_MAX");
    if (!lock_all())
        return 77;
    pthread_t threads[4];
    long faults[4];
    if (has_threads)
        start_workers(threads, faults, LENGTH(threads));
    reserve_pool(argv[2]);
    if (has_threads) {
        pthread_barrier_wait(&may_work);
        pthread_barrier_wait(&have_worked);
        for (size_t i = 0; i < LENGTH(threads); i++) {
            CHECK(pthread_join(threads[i], NULL) == 0, "join");
            check_faults(faults[i], "thread", (unsigned)i);
        }
    }
    for (uint64_t seed = 1; seed <= 3; seed++) {
        long before = minor_faults();
        work(seed, pool_bytes / 4, 3000);
        check_faults(minor_faults() - before, "turn", (unsigned)seed);
        nap_ms(20);
    }
    check_heap("after the loop");
    CHECK(malloc_trim(0) == 1, "malloc_trim gives nothing back");
    size_t stacks = has_threads ? LENGTH(threads) * 8 * MIB : 0, most = stacks + 60 * MIB;
    CHECK(resident_bytes() < most, "%zu MiB stay after malloc_trim", resident_bytes() / MIB);
    CHECK(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 1, "to end it");
    CHECK(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 0, "a threshold in bytes");
    return 0;
}
