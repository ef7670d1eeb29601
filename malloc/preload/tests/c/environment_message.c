/* A search that fails leaves a message, which the next search frees: before the program's first
 * `free`, which may be one that has to be searched for itself. */
#include "check.h"

int main(void)
{
    CHECK(dlsym(RTLD_DEFAULT, "no_such_symbol") == NULL, "nobody defines it");
    void *object = opaque(malloc(opaque_size(100)));
    CHECK(object != NULL, "malloc(100)");
    free(object);
    CHECK(dlsym(RTLD_DEFAULT, "no_such_symbol") == NULL, "still nobody defines it");
    free(opaque(malloc(opaque_size(100))));
    return 0;
}
