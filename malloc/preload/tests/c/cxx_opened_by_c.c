/* A C program that opens a C++ library: allocation, bad_alloc and nothrow work inside it. */
#include "check.h"

int main(int argc, char **argv)
{
    require_quarry();
    CHECK(argc == 2, "usage: %s PLUGIN", argv[0]);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    int (*strings)(int) = (int (*)(int))dlsym(plugin, "plugin_strings");
    int (*catches)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_catches_bad_alloc");
    int (*null)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_nothrow_is_null");
    CHECK(strings != NULL && catches != NULL && null != NULL, "dlsym: %s", dlerror());
    CHECK(strings(1000) == 999, "strings(1000) = %d", strings(1000));
    CHECK(null((size_t)PTRDIFF_MAX - 64) == 1, "nothrow new gave memory");
    int answer = catches((size_t)PTRDIFF_MAX - 64);
    CHECK(answer == 1, "bad_alloc in the plugin: %d", answer);
    CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
    return 0;
}
