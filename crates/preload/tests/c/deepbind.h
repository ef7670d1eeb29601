/* Functions that the plugin of `deepbind` and `deepbind_search` gives its program. */
#include <stddef.h>

struct plugin {
    void *(*create)(size_t size);
    void *(*resize)(void *object, size_t size);
    void (*release)(void *object);
    char *(*copy)(const char *text);
    /* The file that the `free` comes from which the plugin calls. */
    const char *(*owner)(void);
};
