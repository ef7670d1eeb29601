/* The C functions of gperftools' MallocExtension, found by name. It runs on gperftools, too
 * (TEST_PEER=1). */
#include "check.h"

static int (*MallocExtension_GetNumericProperty)(const char *, size_t *);
static void (*MallocExtension_ReleaseFreeMemory)(void);
static void (*MallocExtension_ReleaseToSystem)(ssize_t);
static size_t (*MallocExtension_GetEstimatedAllocatedSize)(size_t);
static size_t (*MallocExtension_GetAllocatedSize)(const void *);

static void find(void *place, const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address != NULL, "no %s", name);
    memcpy(place, &address, sizeof(address));
}

#define FIND(function) find(&function, #function)

static size_t figure(const char *name)
{
    size_t bytes = SIZE_MAX;
    CHECK(MallocExtension_GetNumericProperty(name, &bytes) == 1 && bytes != SIZE_MAX, "%s", name);
    return bytes;
}

int main(void)
{
    if (!testing_a_peer())
        require_quarry();
    FIND(MallocExtension_GetNumericProperty), FIND(MallocExtension_ReleaseFreeMemory);
    FIND(MallocExtension_ReleaseToSystem), FIND(MallocExtension_GetEstimatedAllocatedSize);
    FIND(MallocExtension_GetAllocatedSize);
    size_t before = figure("generic.current_allocated_bytes");
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        size_t size = EDGE_SIZES[i];
        void *object = opaque(malloc(size));
        size_t held = MallocExtension_GetAllocatedSize(object);
        size_t good = MallocExtension_GetEstimatedAllocatedSize(size);
        CHECK(good >= size && held >= size, "%zu, %zu for %zu", good, held, size);
        free(object);
    }
    char *block = opaque(malloc(64 * MIB));
    memset(block, 1, 64 * MIB);
    size_t during = figure("generic.current_allocated_bytes");
    CHECK(during >= before + 64 * MIB, "%zu after %zu", during, before);
    CHECK(figure("generic.heap_size") >= during, "%zu in use", during);
    CHECK(figure("generic.total_physical_bytes") >= 64 * MIB, "%zu in use", during);
    figure("tcmalloc.pageheap_free_bytes");
    figure("tcmalloc.current_total_thread_cache_bytes");
    free(block);
    MallocExtension_ReleaseFreeMemory();
    MallocExtension_ReleaseToSystem(1);
    CHECK(figure("generic.current_allocated_bytes") < before + MIB, "not freed");
    CHECK(figure("generic.total_physical_bytes") < 64 * MIB, "memory stays");
    figure("tcmalloc.pageheap_unmapped_bytes");
    size_t bytes;
    CHECK(MallocExtension_GetNumericProperty("no.such.name", &bytes) == 0, "a name");
    return 0;
}
