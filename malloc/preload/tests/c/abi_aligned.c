/* memalign, aligned_alloc, posix_memalign, valloc, pvalloc. */
#include "check.h"

enum form { MEMALIGN, ALIGNED_ALLOC, POSIX_MEMALIGN, FORMS };
static const char *const FORM_NAMES[] = {"memalign", "aligned_alloc", "posix_memalign"};

static void *allocate(enum form form, size_t alignment, size_t size)
{
    void *object = NULL;
    int error;
    switch (form) {
    case MEMALIGN:
        return memalign(alignment, size);
    case ALIGNED_ALLOC:
        return aligned_alloc(alignment, size);
    default:
        error = posix_memalign(&object, alignment, size);
        CHECK(error == 0, "posix_memalign(%zu, %zu) = %d", alignment, size, error);
        return object;
    }
}

static void check_aligned(const char *name, void *object, size_t alignment, size_t size)
{
    CHECK(object != NULL, "%s(%zu, %zu)", name, alignment, size);
    CHECK((uintptr_t)object % alignment == 0, "%s(%zu, %zu) = %p", name, alignment, size, object);
    size_t usable = malloc_usable_size(object);
    CHECK(usable >= size, "%s(%zu, %zu): usable size %zu", name, alignment, size, usable);
}

static void every_alignment(void)
{
    static const size_t sizes[] = {1, 8, 24, 100, 1000, 4096, 5000, 33000, 70000, MIB, 3 * MIB + 1};
    for (size_t alignment = 8; alignment <= 64 * MIB; alignment *= 2) {
        void *objects[FORMS][LENGTH(sizes)][2];
        for (int form = 0; form < FORMS; form++)
            for (size_t i = 0; i < LENGTH(sizes); i++)
                for (int copy = 0; copy < 2; copy++) {
                    void *object = allocate((enum form)form, alignment, sizes[i]);
                    check_aligned(FORM_NAMES[form], object, alignment, sizes[i]);
                    pattern_fill(object, sizes[i], (uintptr_t)object);
                    objects[form][i][copy] = object;
                }
        for (int form = 0; form < FORMS; form++)
            for (size_t i = 0; i < LENGTH(sizes); i++)
                for (int copy = 0; copy < 2; copy++) {
                    void *object = objects[form][i][copy];
                    CHECK_PATTERN(object, sizes[i], (uintptr_t)object);
                    free(object);
                }
    }
}

/* Objects of odd sizes beside each other, so that a wrong offset within a slab would show. */
static void many_of_one_alignment(void)
{
    enum { COUNT = 500 };
    for (size_t alignment = 16; alignment <= 16384; alignment *= 4)
        for (size_t size = 8; size <= 3000; size = size * 3 + 1) {
            static void *objects[COUNT];
            for (size_t i = 0; i < COUNT; i++) {
                objects[i] = memalign(alignment, size);
                check_aligned("memalign", objects[i], alignment, size);
                memset(objects[i], (int)(i & 0xff), size);
            }
            for (size_t i = 0; i < COUNT; i++) {
                CHECK(((unsigned char *)objects[i])[size - 1] == (i & 0xff), "%p overwritten",
                      objects[i]);
                free(objects[i]);
            }
        }
}

/* At every alignment, realloc keeps an aligned object's contents, and free accepts the object. */
static void aligned_objects_are_objects(void)
{
    for (size_t alignment = 16; alignment <= 4 * MIB; alignment *= 4)
        for (size_t i = 0; i < LENGTH(EDGE_SIZES); i += 5) {
            size_t size = EDGE_SIZES[i];
            void *object = aligned_alloc(alignment, size);
            check_aligned("aligned_alloc", object, alignment, size);
            pattern_fill(object, size, i);
            object = realloc(object, size + size / 2 + 1);
            CHECK(object != NULL, "realloc to %zu", size + size / 2 + 1);
            CHECK_PATTERN(object, size, i);
            object = realloc(object, size / 2 + 1);
            CHECK(object != NULL, "realloc to %zu", size / 2 + 1);
            size_t left = size < size / 2 + 1 ? size : size / 2 + 1;
            CHECK_PATTERN(object, left, i);
            free(object);
        }
}

static void whole_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        size_t size = EDGE_SIZES[i];
        void *object = valloc(size);
        check_aligned("valloc", object, page, size);
        free(object);
        size_t rounded = (size + page - 1) / page * page;
        object = pvalloc(size);
        check_aligned("pvalloc", object, page, rounded);
        memset(object, 1, rounded);
        free(object);
    }
}

/* posix_memalign returns an error code, and changes neither the result nor errno. */
static void posix_refuses(size_t alignment, size_t size, int expected)
{
    void *const untouched = &errno;
    void *object = untouched;
    errno = 0x5a5a;
    int error = posix_memalign(&object, opaque_size(alignment), opaque_size(size));
    CHECK(error == expected, "posix_memalign(%zu, %zu) = %d, not %d", alignment, size, error,
          expected);
    CHECK(object == untouched, "posix_memalign(%zu, %zu) wrote %p", alignment, size, object);
    if (!testing_a_peer())
        CHECK(errno == 0x5a5a, "posix_memalign(%zu, %zu) changed errno", alignment, size);
}

static void refusals(void)
{
    static const size_t not_powers[] = {3, 5, 6, 7, 12, 24, 48, 100, 4095, SIZE_MAX};
    for (size_t i = 0; i < LENGTH(not_powers); i++)
        posix_refuses(not_powers[i], 64, EINVAL);
    posix_refuses(0, 64, EINVAL);
    for (size_t alignment = 1; alignment < sizeof(void *); alignment *= 2)
        posix_refuses(alignment, 64, EINVAL);
    for (size_t alignment = 8; alignment <= MIB; alignment *= 16) {
        posix_refuses(alignment, PTRDIFF_MAX, ENOMEM);
        posix_refuses(alignment, (size_t)PTRDIFF_MAX + 1, ENOMEM);
        posix_refuses(alignment, SIZE_MAX - alignment + 2, ENOMEM);
        posix_refuses(alignment, SIZE_MAX, ENOMEM);
    }
    posix_refuses((size_t)1 << 62, (size_t)1 << 62, ENOMEM);
    if (testing_a_peer())
        return; /* glibc before 2.38 rounds a wrong alignment up */
    for (size_t i = 0; i < LENGTH(not_powers); i++) {
        errno = 0;
        void *object = aligned_alloc(not_powers[i], 64);
        CHECK(object == NULL && errno == EINVAL, "aligned_alloc(%zu, 64) = %p", not_powers[i],
              object);
    }
}

/* No standard defines memalign: it may refuse a wrong alignment, or round it up as glibc does. */
static void odd_memalign(void)
{
    for (size_t alignment = 24; alignment < 3000; alignment = alignment * 2 + 24) {
        size_t above = 32;
        while (above < alignment)
            above *= 2;
        errno = 0;
        void *object = memalign(alignment, 100);
        CHECK(object == NULL ? errno == EINVAL : (uintptr_t)object % above == 0,
              "memalign(%zu, 100) = %p", alignment, object);
        free(object);
    }
}

static void empty_requests(void)
{
    void *first = NULL, *second = NULL;
    CHECK(posix_memalign(&first, 64, 0) == 0, "posix_memalign of nothing");
    CHECK(posix_memalign(&second, 64, 0) == 0, "posix_memalign of nothing");
    CHECK(first != NULL && first != second, "empty requests: %p and %p", first, second);
    free(first);
    free(second);
    first = aligned_alloc(4096, 0);
    CHECK(first != NULL && (uintptr_t)first % 4096 == 0, "aligned_alloc(4096, 0) = %p", first);
    free(first);
}

int main(void)
{
    require_quarry();
    every_alignment();
    many_of_one_alignment();
    aligned_objects_are_objects();
    whole_pages();
    refusals();
    odd_memalign();
    empty_requests();
    return 0;
}
