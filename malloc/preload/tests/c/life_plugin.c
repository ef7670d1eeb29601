/* A library that allocates when it is opened, while it is used, and when it is closed. */
#include "check.h"

static void *from_constructor;

__attribute__((constructor)) static void opened(void)
{
    from_constructor = malloc(700);
    CHECK(from_constructor != NULL, "malloc in a constructor");
    pattern_fill(from_constructor, 700, 7);
}

__attribute__((destructor)) static void closed(void)
{
    CHECK_PATTERN(from_constructor, 700, 7);
    free(from_constructor);
}

/* An object of `size` bytes that outlives the library. */
void *plugin_create(size_t size)
{
    void *object = malloc(size);
    CHECK(object != NULL, "malloc(%zu) in the plugin", size);
    pattern_fill(object, size, size);
    return object;
}

/* Frees an object of the program. */
void plugin_destroy(void *object, size_t size)
{
    CHECK_PATTERN(object, size, size);
    free(object);
}
