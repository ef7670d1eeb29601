/* Prints the limit of the heap in bytes, `none`, or `libc` where that serves. */
#include "check.h"

int main(void)
{
    size_t (*limit)(void) = (size_t (*)(void))dlsym(RTLD_DEFAULT, "quarry_limit");
    CHECK(opaque(malloc(100)) != NULL, "malloc");
    if (limit == NULL)
        puts("libc");
    else if (limit() == SIZE_MAX)
        puts("none");
    else
        printf("%zu\n", limit());
    return 0;
}
