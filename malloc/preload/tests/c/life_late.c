/*
 * Opens the library when the loader may have no thread-local storage at fixed offsets left, and
 * calls its functions in a thread that is older, and in another.
 * usage: life_late LIBRARY OBJECT..
 */
#include "check.h"

#include <pthread.h>

static void *library;
static pthread_barrier_t is_open, is_done;

static void use(void)
{
    void *(*own_malloc)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
    void (*own_free)(void *) = (void (*)(void *))dlsym(library, "free");
    size_t (*usable)(void *) = (size_t (*)(void *))dlsym(library, "malloc_usable_size");
    CHECK(own_malloc != NULL && own_free != NULL && usable != NULL, "dlsym: %s", dlerror());
    for (size_t size = 1; size < 100000; size += 97) {
        void *object = own_malloc(size);
        CHECK(object != NULL, "malloc(%zu)", size);
        pattern_fill(object, size, size);
        CHECK_PATTERN(object, size, size);
        own_free(object);
    }
    void *object = own_malloc(100);
    printf("%zu\n", usable(object));
    own_free(object);
}

static void *older(void *unused)
{
    pthread_barrier_wait(&is_open);
    use();
    pthread_barrier_wait(&is_done);
    return unused;
}

static void *newer(void *unused)
{
    use();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    CHECK(argc > 2, "usage: %s LIBRARY OBJECT..", argv[0]);
    pthread_barrier_init(&is_open, NULL, 2);
    pthread_barrier_init(&is_done, NULL, 2);
    CHECK(pthread_create(&threads[0], NULL, older, NULL) == 0, "pthread_create");
    int refused = 0;
    for (int i = 2; i < argc; i++)
        refused += dlopen(argv[i], RTLD_NOW) == NULL;
    CHECK(refused > 0, "the loader has space left");
    library = dlopen(argv[1], RTLD_NOW);
    CHECK(library != NULL, "dlopen: %s", dlerror());
    pthread_barrier_wait(&is_open);
    pthread_barrier_wait(&is_done);
    CHECK(pthread_create(&threads[1], NULL, newer, NULL) == 0, "pthread_create");
    for (size_t i = 0; i < LENGTH(threads); i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
    return 0;
}
