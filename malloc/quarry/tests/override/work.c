#include <stdlib.h>
#include <string.h>

void *c_object(size_t size)
{
    void *object = malloc(size);
    return object == NULL ? NULL : memset(object, 7, size);
}

void c_release(void *object, size_t size)
{
    memset(object, 9, size);
    free(realloc(object, size * 2));
}
