/*
 * usage: around_commit MIB; with vm.overcommit_memory=2 the system promises at most MIB to all
 * processes together. A request above this limit is refused with ENOMEM, and smaller ones still
 * succeed.
 */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: %s MIB", argv[0]);
    require_quarry();
    size_t limit = strtoul(argv[1], NULL, 10) * MIB;
    void *before = malloc(100000);
    errno = 0;
    void *object = malloc(limit + MIB);
    CHECK(object == NULL && errno == ENOMEM, "malloc(%zu): %p", limit + MIB, object);
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        object = malloc(EDGE_SIZES[i]);
        CHECK(object != NULL, "malloc(%zu)", EDGE_SIZES[i]);
        pattern_fill(object, EDGE_SIZES[i], i);
        CHECK_PATTERN(object, EDGE_SIZES[i], i);
        free(object);
    }
    free(before);
    return 0;
}
