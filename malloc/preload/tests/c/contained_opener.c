/* Opens the library that the argument names; objects pass both ways. */
#include "check.h"

int main(int argc, char **argv)
{
    enum { COUNT = 50 };
    CHECK(argc == 2, "usage: %s LIBRARY", argv[0]);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    void *(*create)(size_t) = (void *(*)(size_t))dlsym(plugin, "plugin_create");
    void (*destroy)(void *, size_t) = (void (*)(void *, size_t))dlsym(plugin, "plugin_destroy");
    CHECK(create != NULL && destroy != NULL, "dlsym: %s", dlerror());
    for (size_t size = 1; size < 100000; size += size / 2 + 1) {
        void *theirs = create(size);
        void *ours = malloc(size);
        CHECK(ours != NULL, "malloc(%zu)", size);
        pattern_fill(ours, size, size);
        destroy(ours, size);
        CHECK_PATTERN(theirs, size, size);
        free(theirs);
    }
    return 0;
}
