/*
 * A program locks one buffer and frees it without unlocking it, as programs with secrets do. All
 * other memory goes back to the system. Exits with 77 and a reason where it may not lock.
 */
#include "memory.h"

#include <sys/mman.h>

enum { COUNT = 16384, BYTES = 16 * KIB };

int main(void)
{
    require_quarry();
    /* The lowest block of the heap, and one among many. */
    char *first = malloc(64 * KIB);
    CHECK(first != NULL, "64 KiB");
    memset(first, 1, 64 * KIB);
    if (mlock(first, 64 * KIB) != 0) {
        printf("mlock of 64 KiB: %s\n", strerror(errno));
        return 77;
    }
    size_t before = resident_bytes();
    struct objects objects = room_for(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        unsigned char *start = malloc(BYTES);
        CHECK(start != NULL, "%zu objects", i);
        memset(start, 1, BYTES);
        objects.all[objects.count++] = (struct object){start, BYTES};
    }
    CHECK(mlock(objects.all[COUNT / 2].start, BYTES) == 0, "mlock of one object");
    CHECK(resident_bytes() >= before + COUNT * (size_t)BYTES, "nothing is resident");
    free(first);
    while (objects.count > 0)
        free(objects.all[--objects.count].start);
    malloc_trim(0);
    size_t left = resident_bytes() - before;
    printf("%zu KiB are left of %zu\n", left / KIB, COUNT * (size_t)BYTES / KIB);
    CHECK(left < 12 * MIB, "%zu bytes stay because of two locked buffers", left);
    /* Whether the system took the memory back or refused, it serves again, and calloc zeroes it. */
    for (int i = 0; i < 200; i++) {
        unsigned char *zeroed = calloc(1, 64 * KIB);
        CHECK(zeroed != NULL, "calloc");
        for (size_t at = 0; at < 64 * KIB; at += 61)
            CHECK(zeroed[at] == 0, "calloc is not zero at %zu", at);
    }
    check_heap("after a purge around locked memory");
    return 0;
}
