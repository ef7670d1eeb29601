/* Requests above PTRDIFF_MAX are refused with ENOMEM; errno is otherwise left alone. */
#include "check.h"

enum { MARK = 0x5a5a };

#define REFUSED(call)                                                                        \
    do {                                                                                     \
        errno = 0;                                                                           \
        void *object = (call);                                                               \
        CHECK(object == NULL && errno == ENOMEM, #call " = %p for %zu", object, size);       \
    } while (0)

static void too_large(void)
{
    static const size_t sizes[] = {
        PTRDIFF_MAX,         (size_t)PTRDIFF_MAX + 1,  (size_t)PTRDIFF_MAX + 4096,
        SIZE_MAX / 2 + 4097, SIZE_MAX - 2 * MIB,       SIZE_MAX - 65536,
        SIZE_MAX - 4096,     SIZE_MAX - 4095,          SIZE_MAX - 64,
        SIZE_MAX - 16,       SIZE_MAX - 15,            SIZE_MAX - 8,
        SIZE_MAX - 1,        SIZE_MAX,                 (size_t)1 << 48,
        (size_t)1 << 56,
    };
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        size_t size = opaque_size(sizes[i]);
        REFUSED(malloc(size));
        REFUSED(calloc(1, size));
        REFUSED(calloc(size, 1));
        REFUSED(realloc(NULL, size));
        REFUSED(reallocarray(NULL, size, 1));
        REFUSED(valloc(size));
        REFUSED(pvalloc(size));
        for (size_t alignment = 16; alignment <= MIB; alignment *= 16) {
            REFUSED(memalign(alignment, size));
            REFUSED(aligned_alloc(alignment, size));
        }
    }
}

/* After a refusal the allocator goes on as before. */
static void refusal_has_no_effect(void)
{
    for (int i = 0; i < 100000; i++)
        if (opaque(malloc(opaque_size(SIZE_MAX - (size_t)i))) != NULL)
            CHECK(0, "malloc(SIZE_MAX - %d) gave memory", i);
    void *object = malloc(100);
    CHECK(object != NULL, "malloc after refusals");
    free(object);
}

static void success_leaves_errno_alone(void)
{
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        size_t size = EDGE_SIZES[i];
        errno = MARK;
        void *objects[8] = {malloc(size), calloc(1, size), realloc(NULL, size),
                            memalign(64, size), aligned_alloc(4096, size), valloc(size),
                            pvalloc(size), NULL};
        CHECK(errno == MARK, "an allocation of %zu changed errno", size);
        CHECK(posix_memalign(&objects[7], 128, size) == 0, "posix_memalign(128, %zu)", size);
        CHECK(errno == MARK, "posix_memalign of %zu changed errno", size);
        for (size_t k = 0; k < LENGTH(objects); k++) {
            CHECK(objects[k] != NULL, "allocation %zu of %zu bytes", k, size);
            memset(objects[k], 1, size);
        }
        objects[0] = realloc(objects[0], size * 2);
        objects[1] = realloc(objects[1], size / 2 + 1);
        CHECK(objects[0] != NULL && objects[1] != NULL, "realloc of %zu", size);
        CHECK(errno == MARK, "realloc of %zu changed errno", size);
        CHECK(malloc_usable_size(objects[2]) >= size, "usable size");
        CHECK(errno == MARK, "malloc_usable_size changed errno");
        for (size_t k = 0; k < LENGTH(objects); k++) {
            free(objects[k]);
            CHECK(errno == MARK, "free of %zu bytes changed errno", size);
        }
    }
    errno = MARK;
    free(NULL);
    CHECK(errno == MARK, "free(NULL) changed errno");
}

/* Frees so much at once that the calls of free give memory back to the system. */
static void large_frees_leave_errno_alone(void)
{
    enum { COUNT = 64 };
    static char *objects[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = malloc((1 + i % 8) * MIB);
        CHECK(objects[i] != NULL, "malloc of %zu MiB", 1 + i % 8);
        objects[i][0] = 1;
    }
    errno = MARK;
    for (size_t i = 0; i < COUNT; i++)
        free(objects[i]);
    CHECK(errno == MARK, "free of large objects changed errno");
}

int main(void)
{
    require_quarry();
    too_large();
    refusal_has_no_effect();
    success_leaves_errno_alone();
    large_frees_leave_errno_alone();
    return 0;
}
