/*
 * The address space that the kernel counts for the process (VmSize) stays within 64 MiB + 1.25
 * times the bytes in use, also after most of these were freed. The content of a core file stays
 * within this bound, too.
 */
#include "deadline.h"
#include "memory.h"

static size_t address_space(void)
{
    return (size_t)field_of("/proc/self/status", "VmSize:") * KIB;
}

static size_t at_start;

static void check_space(size_t in_use, const char *when)
{
    size_t counted = address_space() - at_start;
    size_t allowed = 64 * MIB + in_use + in_use / 4;
    CHECK(counted <= allowed, "%s: %zu KiB counted, %zu KiB in use", when, counted / KIB,
          in_use / KIB);
}

enum { BLOCKS = 400000 };
static void *blocks[BLOCKS];

static void play(size_t largest, size_t bytes)
{
    uint64_t random = 5;
    size_t count = 0, in_use = 0;
    for (; count < BLOCKS && in_use < bytes; count++) {
        blocks[count] = malloc(random_size(&random, largest));
        CHECK(blocks[count] != NULL, "malloc after %zu bytes", in_use);
        in_use += malloc_usable_size(blocks[count]);
        if (count % 1000 == 0)
            check_space(in_use, "growing");
    }
    check_space(in_use, "grown");
    while (count > 0 && in_use > bytes / 10) {
        in_use -= malloc_usable_size(blocks[--count]);
        free(blocks[count]);
    }
    malloc_trim(0);
    check_space(in_use, "after most of it was freed");
    while (count > 0)
        free(blocks[--count]);
    malloc_trim(0);
    check_space(0, "after all of it was freed");
    check_heap("after all of it was freed");
}

int main(void)
{
    deadline(80, "counting address space");
    /* The library itself, its tables and slots count as Quarry's: the test subtracts only what the
     * program has without the library. */
    at_start = 16 * MIB;
    require_quarry();
    play(2000, 256 * MIB);
    play(100 * KIB, 512 * MIB);
    play(8 * MIB, 1024 * MIB);
    play(200 * MIB, 4096 * MIB);
    return 0;
}
