/* realloc: contents over every transition, growth and shrinking of big objects, realloc(p, 0). */
#include "check.h"

static void *checked_realloc(void *object, size_t from, size_t to, uint64_t seed)
{
    object = realloc(object, to);
    CHECK(object != NULL, "realloc from %zu to %zu", from, to);
    size_t usable = malloc_usable_size(object);
    CHECK(usable >= to, "realloc to %zu: usable size %zu", to, usable);
    size_t kept = from < to ? from : to;
    CHECK_PATTERN(object, kept, seed);
    return object;
}

/* Every pair of sizes, with a neighbour that keeps the object from growing in place. */
static void every_transition(void)
{
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++)
        for (size_t j = 0; j < LENGTH(EDGE_SIZES); j++) {
            size_t from = EDGE_SIZES[i], to = EDGE_SIZES[j];
            if (from + to > 3 * MIB && (i + j) % 8 != 0)
                continue; /* every eighth of the costly ones */
            uint64_t seed = i * 1000 + j;
            void *object = malloc(from);
            void *neighbour = malloc(from);
            CHECK(object != NULL && neighbour != NULL, "malloc(%zu)", from);
            pattern_fill(object, from, seed);
            object = checked_realloc(object, from, to, seed);
            pattern_fill(object, to, seed + 1);
            object = checked_realloc(object, to, from, seed + 1);
            free(neighbour);
            free(object);
        }
}

/* 1 to 64 MiB and back, two objects in step so that neither can simply grow into free space. */
static void big_growth(void)
{
    void *objects[2] = {malloc(MIB), malloc(MIB)};
    CHECK(objects[0] != NULL && objects[1] != NULL, "malloc of 1 MiB");
    size_t size = MIB;
    for (int k = 0; k < 2; k++)
        pattern_fill(objects[k], size, (uint64_t)k);
    for (size_t next = 2; next <= 64; next += next < 8 ? 1 : 7) {
        for (int k = 0; k < 2; k++) {
            objects[k] = checked_realloc(objects[k], size, next * MIB, (uint64_t)k);
            pattern_fill(objects[k], next * MIB, (uint64_t)k);
        }
        size = next * MIB;
    }
    for (size_t next = size / 2; next >= 8; next /= 2) {
        for (int k = 0; k < 2; k++)
            objects[k] = checked_realloc(objects[k], size, next + 8, (uint64_t)k);
        size = next + 8;
    }
    free(objects[0]);
    free(objects[1]);
}

/* A growing buffer, as a string builder has it. */
static void byte_by_byte(void)
{
    unsigned char *buffer = NULL;
    for (size_t size = 1; size <= 20000; size++) {
        buffer = realloc(buffer, size);
        CHECK(buffer != NULL, "realloc to %zu", size);
        buffer[size - 1] = (unsigned char)(size * 7);
        CHECK(buffer[size / 2] == (unsigned char)((size / 2 + 1) * 7), "contents at %zu", size);
    }
    for (size_t size = 20000; size > 0; size--)
        CHECK(buffer[size - 1] == (unsigned char)(size * 7), "contents at %zu", size);
    free(buffer);
}

static void random_walk(void)
{
    struct {
        void *object;
        size_t size;
        uint64_t seed;
    } slots[32] = {{0}};
    uint64_t random = 42;
    for (uint64_t step = 1; step <= 20000; step++) {
        size_t k = next_random(&random) % LENGTH(slots);
        size_t size = random_size(&random, step % 50 == 0 ? 4 * MIB : 64 * KIB);
        slots[k].object = checked_realloc(slots[k].object, slots[k].size, size, slots[k].seed);
        slots[k].size = size;
        slots[k].seed = step;
        pattern_fill(slots[k].object, size, step);
    }
    for (size_t k = 0; k < LENGTH(slots); k++) {
        CHECK_PATTERN(slots[k].object, slots[k].size, slots[k].seed);
        free(slots[k].object);
    }
}

/* As in glibc, realloc(p, 0) frees the object, returns NULL and leaves errno alone. */
static void realloc_to_nothing(void)
{
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        void *object = malloc(EDGE_SIZES[i]);
        CHECK(object != NULL, "malloc(%zu)", EDGE_SIZES[i]);
        errno = 0x5a5a;
        object = realloc(object, 0);
        CHECK(object == NULL && errno == 0x5a5a, "realloc(p, 0) = %p", object);
    }
    size_t before = resident_bytes();
    for (int round = 0; round < 300; round++) {
        char *object = malloc(MIB);
        CHECK(object != NULL, "malloc of 1 MiB");
        for (size_t at = 0; at < MIB; at += PAGE)
            object[at] = 1;
        CHECK(realloc(object, 0) == NULL, "realloc(p, 0)");
    }
    size_t after = resident_bytes();
    CHECK(after < before + 100 * MIB, "realloc(p, 0) frees nothing: resident %zu, then %zu", before,
          after);
}

static void impossible_sizes(void)
{
    static const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 4096,
                                        (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX};
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i += 3)
        for (size_t k = 0; k < LENGTH(impossible); k++) {
            void *object = malloc(EDGE_SIZES[i]);
            CHECK(object != NULL, "malloc(%zu)", EDGE_SIZES[i]);
            pattern_fill(object, EDGE_SIZES[i], i);
            errno = 0;
            void *moved = realloc(object, opaque_size(impossible[k]));
            CHECK(moved == NULL && errno == ENOMEM, "realloc(p, %zu) = %p", impossible[k], moved);
            CHECK_PATTERN(object, EDGE_SIZES[i], i);
            free(object);
        }
}

int main(void)
{
    require_quarry();
    every_transition();
    big_growth();
    byte_by_byte();
    random_walk();
    realloc_to_nothing();
    impossible_sizes();
    return 0;
}
