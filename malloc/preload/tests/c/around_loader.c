/*
 * The loader frees its last message inside `dlsym`, and forgets it only afterwards. If that `free`
 * starts Quarry's thread, this must not call the loader, or the message is freed twice. While all
 * memory is kept, no free starts the thread; later the first slow one does.
 */
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>

enum { OBJECTS = 16 * 1000, BYTES = 1000, KEPT = 8 };

static void find_nothing(const char *name)
{
    CHECK(dlsym(RTLD_DEFAULT, name) == NULL, "%s", name);
}

int main(void)
{
    static char *objects[OBJECTS];
    require_quarry();
    CHECK(mallopt(M_TRIM_THRESHOLD, -1) == 1 && mallopt(M_MMAP_MAX, 0) == 1, "all is kept");
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = opaque(malloc(BYTES));
        CHECK(objects[i] != NULL, "object %d", i);
        memset(objects[i], 1, BYTES);
    }
    for (int i = 0; i < OBJECTS; i++)
        if (i % KEPT > 0)
            free(objects[i]);
    find_nothing("quarry_has_no_such_function");
    CHECK(mallopt(M_TRIM_THRESHOLD, 128 * KIB) == 1, "not kept any more");
    for (int i = 0; i < 100; i++)
        find_nothing("nor_such_a_function");
    const char *message = dlerror();
    CHECK(message != NULL && strstr(message, "nor_such") != NULL, "the message is %s", message);
    for (int i = 0; i < OBJECTS; i += KEPT)
        free(objects[i]);
    check_heap("at the end");
    return 0;
}
