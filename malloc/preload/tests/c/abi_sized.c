/* cfree, which old programs call, and C23's free_sized and free_aligned_sized, found by name. */
#include "check.h"

typedef void free_fn(void *);
typedef void free_sized_fn(void *, size_t);
typedef void free_aligned_sized_fn(void *, size_t, size_t);

static void *function(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address != NULL, "no %s", name);
    return address;
}

int main(void)
{
    require_quarry();
    free_fn *cfree = (free_fn *)function("cfree");
    free_sized_fn *free_sized = (free_sized_fn *)function("free_sized");
    free_aligned_sized_fn *free_aligned_sized =
        (free_aligned_sized_fn *)function("free_aligned_sized");
    cfree(NULL);
    free_sized(NULL, 64);
    free_aligned_sized(NULL, 64, 64);
    size_t before = resident_bytes();
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
            size_t size = EDGE_SIZES[i];
            errno = 0x5a5a;
            char *object = malloc(size);
            CHECK(object != NULL, "malloc(%zu)", size);
            object[0] = object[size - 1] = 1;
            cfree(object);
            object = round % 2 == 0 ? malloc(size) : calloc(1, size);
            CHECK(object != NULL, "malloc(%zu)", size);
            object[0] = object[size - 1] = 1;
            free_sized(object, size);
            size_t alignment = (size_t)16 << (i % 12);
            object = aligned_alloc(alignment, size);
            CHECK(object != NULL, "aligned_alloc(%zu, %zu)", alignment, size);
            object[0] = object[size - 1] = 1;
            free_aligned_sized(object, alignment, size);
            CHECK(errno == 0x5a5a, "errno changed at %zu", size);
        }
    size_t after = resident_bytes();
    CHECK(after < before + 256 * MIB, "resident memory grew from %zu to %zu", before, after);
    return 0;
}
