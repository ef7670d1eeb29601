/* A library whose constructor, under the loader's lock, waits for a thread that allocates. */
#include "check.h"

#include <pthread.h>

static void *allocate(void *unused)
{
    for (size_t size = 64; size < 3 * MIB; size = size * 3 / 2) {
        void *object = opaque(malloc(size));
        CHECK(object != NULL, "malloc(%zu)", size);
        free(object);
    }
    return unused;
}

__attribute__((constructor)) static void opened(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0, "thread");
    CHECK(pthread_join(thread, NULL) == 0, "join");
}
