/* usage: environment_limit MIB; demands that malloc gives no more than that, and not much less. */
#include "check.h"

static size_t fill(size_t size)
{
    static void *objects[1 << 16];
    size_t count = 0;
    for (; count < LENGTH(objects); count++) {
        errno = 0;
        objects[count] = malloc(size);
        if (objects[count] == NULL)
            break;
        pattern_fill(objects[count], size, count);
    }
    CHECK(count < LENGTH(objects), "no limit was met after %zu times %zu", count, size);
    CHECK(errno == ENOMEM, "refused without ENOMEM");
    for (size_t i = 0; i < count; i++) {
        CHECK_PATTERN(objects[i], size, i);
        free(objects[i]);
    }
    return count * size;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: %s MIB", argv[0]);
    require_quarry();
    size_t limit = (size_t)atol(argv[1]) * MIB;
    static const size_t sizes[] = {4 * KIB, 30 * KIB, 100 * KIB, MIB, 20 * MIB, 8 * KIB};
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        size_t held = fill(sizes[i]);
        CHECK(held <= limit, "%zu bytes in objects of %zu under a limit of %zu", held, sizes[i],
              limit);
        CHECK(held >= limit / 2, "only %zu bytes in objects of %zu under a limit of %zu", held,
              sizes[i], limit);
    }
    return 0;
}
