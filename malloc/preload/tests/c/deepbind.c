/*
 * Opens a plugin with RTLD_DEEPBIND, so that it binds to the C library and not to an object that
 * comes before the C library. Program and plugin pass memory to each other.
 * usage: deepbind PLUGIN OWNER; OWNER is part of the name of the object whose `free` the plugin
 * is to call
 */
#include "check.h"

#include "deepbind.h"

static void exchange(const struct plugin *plugin)
{
    for (size_t size = 1; size < 300000; size = size * 3 / 2 + 1) {
        char *ours = malloc(size);
        CHECK(ours != NULL, "malloc(%zu)", size);
        pattern_fill(ours, size, size);
        ours = plugin->resize(ours, 2 * size);
        CHECK(ours != NULL, "the plugin's realloc to %zu", 2 * size);
        CHECK_PATTERN(ours, size, size);
        plugin->release(ours);
        char *theirs = plugin->create(size);
        CHECK(theirs != NULL, "the plugin's malloc(%zu)", size);
        pattern_fill(theirs, size, size);
        theirs = realloc(theirs, 2 * size);
        CHECK(theirs != NULL, "realloc to %zu", 2 * size);
        CHECK_PATTERN(theirs, size, size);
        free(theirs);
    }
    char *copy = plugin->copy("what the C library allocates");
    CHECK(strcmp(copy, "what the C library allocates") == 0, "%s", copy);
    free(copy);
    plugin->release(strdup("and what it allocates for the program"));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: %s PLUGIN OWNER", argv[0]);
    int is_separate = strcmp(argv[2], "separate") == 0;
    errno = 0x5a5a;
    void *object = is_separate ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW)
                               : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    CHECK(object != NULL, "dlopen: %s", dlerror());
    const struct plugin *plugin = dlsym(object, "plugin");
    CHECK(plugin != NULL, "dlsym: %s", dlerror());
    const char *owner = plugin->owner();
    if (is_separate) {
        /* A namespace has a C library of its own, which frees what it has allocated. */
        CHECK(strstr(owner, "libc.so") != NULL, "the plugin's free comes from %s", owner);
        plugin->release(plugin->copy("in a namespace of its own"));
        return 0;
    }
    CHECK(strstr(owner, argv[2]) != NULL, "the plugin's free comes from %s", owner);
    if (strcmp(argv[2], "libc.so") != 0)
        exchange(plugin);
    /* All other effects of dlopen are the loader's. */
    CHECK(dlopen(argv[1], RTLD_LAZY | RTLD_NOLOAD) == object, "another handle");
    CHECK(dlopen("/no/such/object", RTLD_NOW | RTLD_DEEPBIND) == NULL, "nothing was opened");
    CHECK(strstr(dlerror(), "/no/such/object") != NULL, "the error names no file");
    CHECK(dlopen(argv[1], RTLD_DEEPBIND) == NULL, "neither RTLD_NOW nor RTLD_LAZY");
    CHECK(strstr(dlerror(), "invalid mode") != NULL, "the error is another");
    errno = 0x5a5a;
    CHECK(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND) != NULL, "the program itself: %s", dlerror());
    CHECK(errno == 0x5a5a, "errno changed");
    CHECK(dlclose(object) == 0, "dlclose: %s", dlerror());
    return 0;
}
