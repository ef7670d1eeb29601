/*
 * Calls one entry point first of all, before any constructor has run and while no part of the
 * allocator is set up.
 * usage: life_first ENTRY
 */
#include "check.h"

static void *object;
static const char *entry;

static int is(const char *name)
{
    return strcmp(entry, name) == 0;
}

static void first_call(int argc, char **argv, char **environment)
{
    (void)environment;
    CHECK(argc == 2, "usage: %s ENTRY", argv[0]);
    entry = argv[1];
    errno = 0x5a5a;
    if (is("malloc"))
        object = malloc(100);
    else if (is("malloc-of-nothing"))
        object = malloc(0);
    else if (is("malloc-of-a-block"))
        object = malloc(100000);
    else if (is("malloc-of-a-mapping"))
        object = malloc(100 * MIB);
    else if (is("malloc-of-too-much"))
        CHECK(malloc(opaque_size(SIZE_MAX - 100)) == NULL, "memory for SIZE_MAX");
    else if (is("calloc"))
        object = calloc(10, 10);
    else if (is("realloc"))
        object = realloc(NULL, 100);
    else if (is("memalign"))
        object = memalign(4096, 100);
    else if (is("posix_memalign"))
        CHECK(posix_memalign(&object, 64, 100) == 0, "posix_memalign");
    else if (is("free"))
        free(NULL);
    else if (is("malloc_usable_size"))
        CHECK(malloc_usable_size(NULL) == 0, "malloc_usable_size(NULL)");
    else if (is("malloc_trim"))
        malloc_trim(0);
    else if (is("mallopt"))
        mallopt(M_MMAP_THRESHOLD, 1000000);
    else if (is("mallinfo2"))
        CHECK(mallinfo2().uordblks < MIB, "%zu bytes in use", mallinfo2().uordblks);
    else if (is("dlopen"))
        CHECK(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND) != NULL, "%s", dlerror());
    else
        CHECK(0, "unknown entry %s", entry);
    CHECK(errno == 0x5a5a || is("malloc-of-too-much"), "errno changed");
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) =
    first_call;

int main(void)
{
    require_quarry();
    static const char *const without[] = {"malloc-of-too-much", "free", "malloc_usable_size",
                                          "malloc_trim",        "mallopt", "mallinfo2",
                                          "dlopen"};
    int expected = 1;
    for (size_t i = 0; i < LENGTH(without); i++)
        expected &= !is(without[i]);
    CHECK((object != NULL) == expected, "%s gave %p", entry, object);
    if (object != NULL) {
        memset(object, 1, is("malloc-of-nothing") ? 0 : 100);
        object = realloc(object, 3000);
        CHECK(object != NULL, "realloc");
    }
    free(object);
    return 0;
}
