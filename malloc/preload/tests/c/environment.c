/*
 * Says who serves this process, `quarry` or `libc`, and whether it is an AT_SECURE one.
 * usage: environment [fork]; with `fork` a child does the same first
 */
#include "check.h"

#include <sys/auxv.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() != 0) {
        int status = 0;
        CHECK(wait(&status) > 0 && status == 0, "the child ended with %#x", status);
    }
    size_t before = libc_bytes();
    void *object = opaque(malloc(opaque_size(100000)));
    CHECK(object != NULL, "malloc");
    memset(object, 1, 100000);
    const char *who = libc_bytes() >= before + 100000 ? "libc" : "quarry";
    free(object);
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        void *more = realloc(calloc(1, EDGE_SIZES[i]), EDGE_SIZES[i] * 2);
        CHECK(more != NULL, "realloc to %zu", EDGE_SIZES[i] * 2);
        free(more);
    }
    printf("%s secure=%lu\n", who, getauxval(AT_SECURE));
    return 0;
}
