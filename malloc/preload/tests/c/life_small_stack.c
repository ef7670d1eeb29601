/* Threads with the smallest stack that the C library allows: the allocator must need little. */
#include "check.h"

#include <limits.h>
#include <pthread.h>

static void *all_sizes(void *unused)
{
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        size_t size = EDGE_SIZES[i];
        void *object = calloc(1, size);
        CHECK(object != NULL, "calloc(1, %zu)", size);
        object = realloc(object, size * 2);
        CHECK(object != NULL, "realloc to %zu", size * 2);
        memset(object, 1, size * 2);
        free(object);
        object = memalign(4096, size);
        CHECK(object != NULL, "memalign(4096, %zu)", size);
        free(object);
    }
    for (size_t i = 0; i < 2000; i++) {
        void *object = malloc(i * 20);
        CHECK(object != NULL, "malloc(%zu)", i * 20);
        free(object);
    }
    return unused;
}

int main(void)
{
    require_quarry();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    size_t smallest = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    CHECK(pthread_attr_setstacksize(&attributes, smallest) == 0, "stack of %zu", smallest);
    for (int round = 0; round < 3; round++) {
        pthread_t threads[4];
        for (size_t i = 0; i < LENGTH(threads); i++) {
            int error = pthread_create(&threads[i], &attributes, all_sizes, NULL);
            CHECK(error == 0, "pthread_create: %s", strerror(error));
        }
        for (size_t i = 0; i < LENGTH(threads); i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
