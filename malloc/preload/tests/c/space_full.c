/*
 * The process has as many mappings as it may, but for the given number. The heap needs none to
 * grow, so it serves small objects; what it cannot serve is refused, and nothing is lost.
 *
 *     space_full FREE
 */
#include "check.h"

#include <sys/mman.h>

enum { OBJECTS = 100 * 1000, BYTES = 1000, MOST_MAPPINGS = 300 * 1000 };

static char *map(char *at, size_t bytes, int protection)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at == NULL ? 0 : MAP_FIXED);
    return mmap(at, bytes, protection, flags, -1, 0);
}

/* Splits a mapping until the kernel allows no further one. Returns its start. */
static char *fill_up(void)
{
    char *start = map(NULL, MOST_MAPPINGS * PAGE, PROT_NONE);
    CHECK(start != MAP_FAILED, "addresses");
    for (size_t i = 1; i < MOST_MAPPINGS; i += 2) {
        if (map(start + i * PAGE, PAGE, PROT_READ) == MAP_FAILED) {
            CHECK(errno == ENOMEM, "no other limit");
            /* A mapping that splits another one needs two; one more may be left. */
            while (map(NULL, PAGE, i % 4 < 2 ? PROT_READ : PROT_EXEC) != MAP_FAILED)
                i += 2;
            return start;
        }
    }
    puts("skipped: more mappings are allowed here than the test makes");
    exit(0);
}

int main(int count, char **arguments)
{
    static unsigned char *objects[OBJECTS];
    require_quarry();
    CHECK(count == 2, "the number of free mappings");
    char *start = fill_up();
    for (int i = 0; i < atoi(arguments[1]); i++)
        CHECK(munmap(start + (size_t)(2 * i + 1) * PAGE, PAGE) == 0, "mapping %d", i);
    for (int round = 0; round < 2; round++) {
        /* A heap that has given memory back has holes, and to fill a hole may take a mapping. */
        int served = round == 0 ? OBJECTS : OBJECTS / 2;
        for (int i = 0; i < OBJECTS; i++) {
            objects[i] = i % 2 == 0 ? malloc(BYTES) : calloc(1, BYTES);
            CHECK(objects[i] != NULL || i >= served, "object %d of round %d", i, round);
            if (objects[i] != NULL)
                pattern_fill(objects[i], BYTES, (uint64_t)i);
        }
        for (int i = 0; i < OBJECTS; i += 7) {
            unsigned char *grown = objects[i] == NULL ? NULL : realloc(objects[i], 2 * BYTES);
            CHECK(grown != NULL || round > 0, "realloc of object %d", i);
            if (grown != NULL)
                objects[i] = grown;
        }
        /* Some of these may be refused. */
        for (size_t size = 100 * KIB; size < 64 * MIB; size *= 2) {
            unsigned char *block = malloc(size);
            unsigned char *larger = block == NULL ? NULL : realloc(block, 3 * size);
            if (block != NULL)
                CHECK(larger != NULL || errno == ENOMEM, "%zu bytes", size);
            free(larger != NULL ? larger : block);
        }
        for (int i = 0; i < OBJECTS; i++) {
            if (objects[i] != NULL)
                CHECK_PATTERN(objects[i], BYTES, (uint64_t)i);
            free(objects[i]);
        }
        check_heap("after a round");
        malloc_trim(0);
    }
    size_t left = resident_bytes();
    CHECK(left < 40 * MIB, "%zu MiB stay", left / MIB);
}
