/* Functions that the plugin of `deepbind` and `deepbind_search` passes to its program. */
#include <stddef.h>

struct plugin {
    void *(*create)(size_t size);
    void *(*resize)(void *object, size_t size);
    void (*release)(void *object);
    char *(*copy)(const char *text);
    /* The file of the object whose `free` the plugin calls. */
    const char *(*owner)(void);
};
