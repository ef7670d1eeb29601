/*
 * Calls dlopen through a library that has a RUNPATH. With and without RTLD_DEEPBIND the loader
 * finds objects in this path; if another object calls dlopen, it does not find them.
 * usage: deepbind_search CALLER BARE-NAME FOLDER-IN-ORIGIN
 */
#include "check.h"

#include "deepbind.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4, "usage: %s CALLER BARE-NAME FOLDER-IN-ORIGIN", argv[0]);
    require_quarry();
    void *caller = dlopen(argv[1], RTLD_NOW);
    CHECK(caller != NULL, "dlopen: %s", dlerror());
    void *(*open_beside)(const char *, int) =
        (void *(*)(const char *, int))dlsym(caller, "open_beside");
    CHECK(open_beside != NULL, "dlsym: %s", dlerror());
    char in_origin[300];
    snprintf(in_origin, sizeof(in_origin), "$ORIGIN/%s/%s", argv[3], argv[2]);
    const char *names[] = {argv[2], in_origin};
    const int flags[] = {RTLD_NOW, RTLD_NOW | RTLD_DEEPBIND,
                         RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND};
    for (size_t i = 0; i < LENGTH(names); i++) {
        for (size_t j = 0; j < LENGTH(flags); j++) {
            CHECK(dlopen(names[i], flags[j]) == NULL, "%s is found from here", names[i]);
            void *object = open_beside(names[i], flags[j]);
            CHECK(object != NULL, "%s, flags %#x: %s", names[i], flags[j], dlerror());
            const struct plugin *plugin = dlsym(object, "plugin");
            CHECK(plugin != NULL, "dlsym: %s", dlerror());
            plugin->release(malloc(100));
            free(plugin->copy("text"));
            CHECK(dlclose(object) == 0, "dlclose: %s", dlerror());
        }
    }
    return 0;
}
