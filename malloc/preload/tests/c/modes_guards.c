/*
 * The guards of QUARRY_HARDEN leave the program its memory and its mappings: they are not charged,
 * take few mappings, and go with what they guard. In a system of kind `old` the kernel is one
 * before Linux 6.13; in one of kind `none` it protects no memory.
 * usage: modes_guards now|old|none
 */
#include "guards.h"
#include "memory.h"

enum { ROUNDS = 3, OBJECTS_BYTES = 160 << 20 };

static void fill(struct objects *objects, size_t size)
{
    while (objects->bytes < OBJECTS_BYTES)
        add_object(objects, size);
}

static void empty(struct objects *objects)
{
    for (size_t i = 0; i < objects->count; i++)
        free_object(objects, i);
    objects->count = 0;
    malloc_trim(0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: %s now|old|none", argv[0]);
    require_quarry();
    no_unasked_huge_pages();
    if (strcmp(argv[1], "now") != 0)
        refuse_guards(strcmp(argv[1], "none") == 0);
    struct objects objects = room_for(OBJECTS_BYTES / 3000 + 1);
    size_t most = (size_t)field_of("/proc/sys/vm/max_map_count", "");
    size_t before = mappings(), resident = peak_bytes();
    /* Slabs of different lengths, and blocks of pages. */
    static const size_t SIZES[] = {3000, 30000, 50000};
    for (size_t i = 0; i < ROUNDS; i++) {
        fill(&objects, SIZES[i]);
        printf("%zu bytes: %zu mappings of %zu\n", SIZES[i], mappings(), before);
        /* They may also be fewer than before, because mappings merge. */
        CHECK(mappings() < before + most / 2, "%zu mappings", mappings());
        check_heap("with guards");
        empty(&objects);
        check_heap("without guards");
        reset_peak();
        CHECK(peak_bytes() < resident + 24 * MIB, "%zu bytes stay", peak_bytes());
        CHECK(mappings() < before + 200, "%zu mappings stay of %zu", mappings(), before);
    }
    /* Memory that was guarded serves large requests. */
    for (size_t i = 0; i < 8; i++)
        add_object(&objects, 900 * KIB);
    add_object(&objects, 64 * MIB);
    empty(&objects);
    check_heap("after large requests");
    return 0;
}
