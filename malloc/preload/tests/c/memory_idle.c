/*
 * usage: memory_idle count|bytes|small SURVIVORS
 * Allocates 512 MiB in objects of 16 bytes to 1 MiB, and frees them in random order, except one in
 * SURVIVORS (0: all are freed). Then the program makes no call of the allocator; all the same,
 * resident memory and the system's count must fall. `count`: each power of two has as many objects;
 * `bytes`: it has as many bytes; `small`: objects of 16 to 1,395 bytes, of which at most 1.25 times
 * the survivors' pages and 4 MiB stay.
 */
#include "memory.h"

/*
 * Longest wait until the memory has gone back. On an idle machine this takes half a second to a
 * second; on a busy one other programs' threads may run first. The lab measures how much is held
 * after 2 seconds (`idle-return`).
 */
enum { GENEROUS_SECONDS = 40 };

static void fill(struct objects *objects, const char *how, uint64_t *random)
{
    int by_bytes = strcmp(how, "bytes") == 0, are_small = strcmp(how, "small") == 0;
    while (objects->bytes < 512 * MIB) {
        size_t size = are_small ? 16 + next_random(random) % 1380 : same_count(random, 16, MIB);
        /* Each power gets the same number of bytes, so that smaller ones come more often. */
        if (!by_bytes)
            add_object(objects, size);
        else
            for (size_t bytes = 0; bytes < MIB; bytes += size)
                add_object(objects, size);
    }
}

/*
 * The kernel charges a group for stocks on each CPU, so 4 MiB more may stay. Other programs change
 * MemFree, so it is only printed.
 */
static int agrees(ssize_t charged, size_t bound)
{
    return !has_group() || charged <= (ssize_t)(bound + 4 * MIB);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: %s count|bytes|small SURVIVORS", argv[0]);
    require_quarry();
    size_t survivors = strtoul(argv[2], NULL, 10);
    uint64_t random = 1;
    struct objects objects = room_for(16u << 20);
    size_t resident_before = resident_bytes(), charged_before = charged_bytes();

    fill(&objects, argv[1], &random);
    shuffle(&objects, &random);
    size_t table = table_bytes(&objects);
    size_t resident_full = resident_bytes() - table;
    CHECK(resident_full >= 512 * MIB, "only %zu bytes resident", resident_full);
    for (size_t i = 0; i < objects.count; i++)
        if (survivors == 0 || i % survivors != 0)
            free_object(&objects, i);

    size_t live = objects.bytes;
    size_t bound = survivors == 0 ? live + 8 * MIB : 22 * MIB;
    if (strcmp(argv[1], "small") == 0)
        bound = pages_under(&objects) * 5 / 4 + 4 * MIB;
    ssize_t resident, charged;
    double start = seconds_now(), waited;
    do {
        nap_ms(20);
        waited = seconds_now() - start;
        resident = (ssize_t)(resident_bytes() - resident_before - table);
        charged = (ssize_t)(charged_bytes() - charged_before - table);
    } while (waited < GENEROUS_SECONDS && (resident > (ssize_t)bound || !agrees(charged, bound)));
    printf("after %.2f s: %zu KiB live, %zd KiB resident, %zd KiB counted by %s\n", waited,
           live / KIB, resident / (ssize_t)KIB, charged / (ssize_t)KIB,
           has_group() ? "the control group" : "MemFree");
    CHECK(resident <= (ssize_t)bound, "%zd bytes resident, %zu live", resident, live);
    CHECK(huge_holes() <= 4 * MIB, "%zu bytes are to come back as huge pages", huge_holes());
    CHECK(agrees(charged, bound), "%zd bytes counted, %zd resident", charged, resident);
    return 0;
}
