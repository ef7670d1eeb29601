/* A library is opened and closed again and again, beside threads; objects pass both ways. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

static const char *path;
static atomic_int stop;

static void *churn(void *unused)
{
    uint64_t random = 3;
    while (!atomic_load(&stop)) {
        size_t size = random_size(&random, 50000);
        void *object = malloc(size);
        CHECK(object != NULL, "malloc(%zu)", size);
        pattern_fill(object, size, size);
        CHECK_PATTERN(object, size, size);
        free(object);
    }
    return unused;
}

static void open_and_close(size_t round)
{
    enum { COUNT = 50 };
    void *objects[COUNT];
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    void *(*create)(size_t) = (void *(*)(size_t))dlsym(plugin, "plugin_create");
    void (*destroy)(void *, size_t) = (void (*)(void *, size_t))dlsym(plugin, "plugin_destroy");
    CHECK(create != NULL && destroy != NULL, "dlsym: %s", dlerror());
    for (size_t i = 0; i < COUNT; i++)
        objects[i] = create(round * i + 1);
    for (size_t i = 0; i < COUNT; i++) {
        void *object = malloc(i * 100 + 1);
        CHECK(object != NULL, "malloc(%zu)", i * 100 + 1);
        pattern_fill(object, i * 100 + 1, i * 100 + 1);
        destroy(object, i * 100 + 1);
    }
    CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
#ifdef __GLIBC__
    /* musl unloads nothing. */
    CHECK(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL, "the plugin is still loaded");
#endif
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_PATTERN(objects[i], round * i + 1, round * i + 1);
        free(objects[i]);
    }
}

int main(int argc, char **argv)
{
    require_quarry();
    CHECK(argc == 2, "usage: %s PLUGIN", argv[0]);
    path = argv[1];
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, churn, NULL) == 0, "pthread_create");
    for (size_t round = 1; round <= 200; round++)
        open_and_close(round);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    return 0;
}
