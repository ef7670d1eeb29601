/* malloc, free, malloc_usable_size: every size, alignment, usable size, disjoint objects. */
#include "check.h"

/* C demands that an object of `size` bytes may hold any type that fits. */
static size_t natural_alignment(size_t size)
{
    return size >= 16 ? 16 : 8;
}

static void every_small_size(void)
{
    enum { LIMIT = 40000 };
    static unsigned char *objects[LIMIT + 1];
    for (size_t size = 1; size <= LIMIT; size += size < 2100 ? 1 : 7) {
        unsigned char *object = malloc(size);
        CHECK(object != NULL, "malloc(%zu)", size);
        CHECK((uintptr_t)object % natural_alignment(size) == 0, "malloc(%zu) = %p", size,
              (void *)object);
        size_t usable = malloc_usable_size(object);
        CHECK(usable >= size, "malloc(%zu): usable size %zu", size, usable);
        memset(object, (int)(size & 0xff), usable);
        objects[size] = object;
    }
    for (size_t size = 1; size <= LIMIT; size++) {
        unsigned char *object = objects[size];
        if (object == NULL)
            continue;
        size_t usable = malloc_usable_size(object);
        for (size_t i = 0; i < usable; i++)
            CHECK(object[i] == (size & 0xff), "byte %zu of %zu in %p was overwritten", i, usable,
                  (void *)object);
        free(object);
    }
}

static void edge_sizes(void)
{
    for (int round = 0; round < 3; round++) {
        void *objects[LENGTH(EDGE_SIZES)];
        for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
            size_t size = EDGE_SIZES[i];
            objects[i] = malloc(size);
            CHECK(objects[i] != NULL, "malloc(%zu)", size);
            CHECK((uintptr_t)objects[i] % natural_alignment(size) == 0, "malloc(%zu) = %p", size,
                  objects[i]);
            size_t usable = malloc_usable_size(objects[i]);
            CHECK(usable >= size, "malloc(%zu): usable size %zu", size, usable);
            pattern_fill(objects[i], usable, i + 1);
            ((char *)objects[i])[usable - 1] = (char)i;
        }
        for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
            char last = ((char *)objects[i])[malloc_usable_size(objects[i]) - 1];
            CHECK(last == (char)i, "the last usable byte of %zu changed", EDGE_SIZES[i]);
            size_t checked = EDGE_SIZES[i] - 1;
            CHECK_PATTERN(objects[i], checked, i + 1);
            free(objects[i]);
        }
    }
}

/* malloc(0) and its kin give objects of their own. */
static void empty_requests(void)
{
    enum { COUNT = 1000 };
    static void *objects[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = i % 3 == 0 ? malloc(0) : i % 3 == 1 ? calloc(0, 8) : realloc(NULL, 0);
        CHECK(objects[i] != NULL, "empty request %zu failed", i);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(objects[i] != objects[j], "empty requests %zu and %zu share %p", i, j,
                  objects[i]);
    for (size_t i = 0; i < COUNT; i++)
        free(objects[i]);
    CHECK(malloc_usable_size(NULL) == 0, "malloc_usable_size(NULL) = %zu",
          malloc_usable_size(NULL));
    free(NULL);
}

/* Freed memory is used again: the program allocates a gibibyte in all, and little stays
 * resident. */
static void freed_memory_comes_back(void)
{
    size_t before = resident_bytes();
    for (size_t round = 0; round < 4; round++)
        for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
            size_t size = EDGE_SIZES[i];
            size_t count = size < 64 * KIB ? 4 * MIB / size / 4 + 1 : 4 * MIB / size + 1;
            for (size_t k = 0; k < count; k++) {
                char *object = malloc(size);
                CHECK(object != NULL, "malloc(%zu)", size);
                object[0] = object[size - 1] = 1;
                free(object);
            }
        }
    size_t after = resident_bytes();
    CHECK(after < before + 256 * MIB, "resident memory grew from %zu to %zu", before, after);
}

int main(void)
{
    require_quarry();
    every_small_size();
    edge_sizes();
    empty_requests();
    freed_memory_comes_back();
    return 0;
}
