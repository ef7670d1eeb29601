/* Memory from either name of a function of glibc's allocator goes back by either name. */
#include "check.h"

void *__libc_malloc(size_t);
void __libc_free(void *);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *__libc_valloc(size_t);
void *__libc_pvalloc(size_t);

typedef void *(*allocate)(size_t);

static void *zeroed(size_t size) { return calloc(1, size); }
static void *zeroed_too(size_t size) { return __libc_calloc(1, size); }
static void *aligned(size_t size) { return memalign(256, size); }
static void *aligned_too(size_t size) { return __libc_memalign(256, size); }
static void *resized(size_t size) { return realloc(NULL, size); }
static void *resized_too(size_t size) { return __libc_realloc(NULL, size); }

int main(void)
{
    static const allocate makers[] = {malloc, __libc_malloc, zeroed,  zeroed_too,  aligned,
                                      aligned_too,           resized, resized_too, valloc,
                                      __libc_valloc,         pvalloc, __libc_pvalloc};
    static void (*const enders[])(void *) = {free, __libc_free};
    static void *(*const resizers[])(void *, size_t) = {realloc, __libc_realloc};
    __libc_free(NULL);
    for (size_t size = 1; size < 8 * MIB; size = size * 3 + 5)
        for (size_t maker = 0; maker < LENGTH(makers); maker++)
            for (size_t way = 0; way < 8; way++) {
                unsigned char *block = makers[maker](size);
                CHECK(block != NULL && malloc_usable_size(block) >= size, "maker %zu", maker);
                pattern_fill(block, size, maker);
                size_t larger = way & 4 ? size * 2 : size / 2 + 1;
                block = resizers[way & 1](block, larger);
                CHECK_PATTERN(block, larger < size ? larger : size, maker);
                enders[way >> 1 & 1](block);
            }
    errno = 0;
    CHECK(__libc_malloc(opaque_size((size_t)PTRDIFF_MAX)) == NULL && errno == ENOMEM, "malloc");
    CHECK(__libc_calloc(opaque_size(SIZE_MAX / 2), 4) == NULL, "calloc");
    return 0;
}
