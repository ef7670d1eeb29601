/* calloc zeroes memory that had other contents; calloc and reallocarray refuse an overflow. */
#include "check.h"

#include <pthread.h>

static void check_zero(const unsigned char *object, size_t size)
{
    if (object[0] == 0 && memcmp(object, object + 1, size - 1) == 0)
        return;
    size_t at = 0;
    while (object[at] == 0)
        at++;
    CHECK(0, "calloc of %zu gave %p with %#x at offset %zu", size, (const void *)object,
          object[at], at);
}

/* Fills objects of one size with bytes other than 0, frees them by three routes, and allocates them
 * again. */
static void zero_after_reuse(size_t size)
{
    enum { COUNT = 40 };
    unsigned char *objects[COUNT];
    size_t count = size < 128 * KIB ? COUNT : size < 4 * MIB ? 4 : 2;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < count; i++) {
            objects[i] = round == 0 ? malloc(size) : calloc(1, size);
            CHECK(objects[i] != NULL, "round %d of %zu", round, size);
            if (round != 0)
                check_zero(objects[i], size);
            memset(objects[i], 0xa5, malloc_usable_size(objects[i]));
        }
        for (size_t i = 0; i < count; i++) {
            if (round == 0 && i % 4 == 1)
                objects[i] = realloc(objects[i], size / 2 + 1);
            if (round == 0 && i % 4 == 2) {
                objects[i] = realloc(objects[i], size * 2);
                memset(objects[i], 0x5a, size * 2);
            }
            free(objects[i]);
        }
    }
}

/* Pages that objects of one size filled with 0xff go through the zone to the next size. */
static void zero_after_pages_changed_use(void)
{
    for (size_t i = 0; i + 1 < LENGTH(EDGE_SIZES); i++)
        for (size_t back = 0; back < 2; back++) {
            size_t dirty = EDGE_SIZES[back ? i + 1 : LENGTH(EDGE_SIZES) - 1 - i];
            size_t clean = EDGE_SIZES[back ? i : i / 2];
            unsigned char *first = malloc(dirty);
            CHECK(first != NULL, "malloc(%zu)", dirty);
            memset(first, 0xff, dirty);
            free(first);
            unsigned char *second = calloc(clean, 1);
            CHECK(second != NULL, "calloc(%zu, 1)", clean);
            check_zero(second, clean);
            free(second);
        }
}

static void *dirty_and_leave(void *unused)
{
    static const size_t sizes[] = {16, 64, 200, 1024, 5000, 32768, 200000};
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        void *objects[64];
        for (size_t k = 0; k < LENGTH(objects); k++) {
            objects[k] = malloc(sizes[i]);
            CHECK(objects[k] != NULL, "malloc(%zu)", sizes[i]);
            memset(objects[k], 0xcc, sizes[i]);
        }
        for (size_t k = 0; k < LENGTH(objects); k++)
            free(objects[k]);
        for (size_t k = 0; k < LENGTH(objects); k++) {
            objects[k] = calloc(sizes[i] / 2, 2);
            CHECK(objects[k] != NULL, "calloc(%zu, 2)", sizes[i] / 2);
            check_zero(objects[k], sizes[i] / 2 * 2);
        }
        for (size_t k = 0; k < LENGTH(objects); k++)
            free(objects[k]);
    }
    return unused;
}

static void zero_on_many_threads(void)
{
    pthread_t threads[8];
    for (size_t i = 0; i < LENGTH(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, dirty_and_leave, NULL) == 0, "pthread_create");
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
}

static void overflow(void)
{
    static const size_t pairs[][2] = {
        {SIZE_MAX, 2},       {2, SIZE_MAX},
        {SIZE_MAX, SIZE_MAX}, {(size_t)1 << 32, (size_t)1 << 32},
        {(size_t)1 << 63, 2}, {3, SIZE_MAX / 3 + 1},
        {SIZE_MAX / 16 + 2, 16}, {1, SIZE_MAX},
        {SIZE_MAX, 1},       {1, (size_t)PTRDIFF_MAX + 1},
        {1, PTRDIFF_MAX},    {(size_t)1 << 31, (size_t)1 << 32},
    };
    for (size_t i = 0; i < LENGTH(pairs); i++) {
        size_t count = opaque_size(pairs[i][0]), size = opaque_size(pairs[i][1]);
        errno = 0;
        void *object = calloc(count, size);
        CHECK(object == NULL && errno == ENOMEM, "calloc(%zu, %zu) = %p", count, size, object);
        unsigned char *old = malloc(100);
        pattern_fill(old, 100, i);
        errno = 0;
        object = reallocarray(old, count, size);
        CHECK(object == NULL && errno == ENOMEM, "reallocarray(%zu, %zu) = %p", count, size,
              object);
        CHECK_PATTERN(old, 100, i);
        free(old);
    }
}

static void reallocarray_works(void)
{
    uint64_t *numbers = reallocarray(NULL, 10, sizeof(*numbers));
    CHECK(numbers != NULL, "reallocarray(NULL, 10, 8)");
    pattern_fill(numbers, 80, 1);
    numbers = reallocarray(numbers, 100000, sizeof(*numbers));
    CHECK(numbers != NULL && malloc_usable_size(numbers) >= 800000, "reallocarray to 800,000");
    CHECK_PATTERN(numbers, 80, 1);
    free(numbers);
}

int main(void)
{
    require_quarry();
    for (size_t i = 0; i < LENGTH(EDGE_SIZES) - 2; i++)
        zero_after_reuse(EDGE_SIZES[i]);
    zero_after_pages_changed_use();
    zero_on_many_threads();
    overflow();
    reallocarray_works();
    return 0;
}
