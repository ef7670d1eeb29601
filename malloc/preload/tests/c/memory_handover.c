/*
 * usage: memory_handover SMALLEST LARGEST [PERCENT]
 * One thread allocates, another only frees. (With mimalloc, #1364 and #1002, memory grew to 3 to 30
 * times the live bytes.) Two gigabytes pass through a ring of bounded length to the freeing thread,
 * which keeps 256 MiB live. The resident peak stays within PERCENT (120) of the live bytes,
 * including those in the ring.
 */
#include "memory.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Objects in the ring, and how many change hands at a time. */
enum { RING = 1 << 12, BATCH = 1 << 6 };

static struct object ring[RING];
static sem_t filled, empty;
/* The freeing thread keeps this many bytes before it frees the oldest objects. */
static size_t held_bytes, held_most;
static struct object *held;
static _Atomic size_t live, most_live;

static void *only_frees(void *unused)
{
    size_t oldest = 0, next = 0, bytes = 0;
    for (size_t number = 0;; number++) {
        if (number % BATCH == 0)
            sem_wait(&filled);
        struct object got = ring[number % RING];
        if (number % BATCH == BATCH - 1)
            sem_post(&empty);
        if (got.start == NULL)
            break;
        held[next++ % held_most] = got;
        bytes += got.size;
        while (bytes > held_bytes) {
            struct object *old = &held[oldest++ % held_most];
            CHECK(old->start[0] == old->start[old->size - 1], "an object changed");
            free(old->start);
            bytes -= old->size;
            atomic_fetch_sub(&live, old->size);
        }
    }
    for (; oldest < next; oldest++)
        free(held[oldest % held_most].start);
    return unused;
}

static void pass(size_t size)
{
    static size_t number;
    if (number % BATCH == 0)
        sem_wait(&empty);
    unsigned char *start = NULL;
    if (size != 0) {
        start = malloc(size);
        CHECK(start != NULL, "malloc(%zu)", size);
        memset(start, 1 + (int)(number & 0x3f), size);
        size_t now = atomic_fetch_add(&live, size) + size;
        if (now > most_live)
            most_live = now;
    }
    ring[number++ % RING] = (struct object){start, size};
    if (number % BATCH == 0 || size == 0)
        sem_post(&filled);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 || argc == 4, "usage: %s SMALLEST LARGEST [PERCENT]", argv[0]);
    require_quarry();
    no_unasked_huge_pages();
    size_t smallest = strtoul(argv[1], NULL, 10), largest = strtoul(argv[2], NULL, 10);
    size_t percent = argc == 4 ? strtoul(argv[3], NULL, 10) : 120;
    held_bytes = 256 * MIB;
    held_most = held_bytes / smallest + RING;
    struct objects table = room_for(held_most);
    held = table.all;
    /* Makes the table and the ring resident before anything is measured. */
    memset(held, 1, held_most * sizeof(struct object));
    memset(ring, 1, sizeof(ring));
    sem_init(&filled, 0, 0);
    sem_init(&empty, 0, RING / BATCH);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, only_frees, NULL) == 0, "pthread_create");
    size_t before = resident_bytes();
    uint64_t random = 3;
    for (size_t bytes = 0; bytes < 2048 * MIB;) {
        size_t size = smallest == largest ? largest : same_count(&random, smallest, largest);
        pass(size);
        bytes += size;
    }
    pass(0);
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    size_t peak = peak_bytes() - before, bound = most_live / 100 * percent;
    printf("%zu KiB at the peak, %zu KiB live\n", peak / KIB, most_live / KIB);
    CHECK(peak <= bound + 2 * MIB, "peak of %zu bytes with %zu live", peak, most_live);
    return 0;
}
