/*
 * The program sets its own limit: requests beyond it are refused, blocks in use stay, and a higher
 * limit lets the program go on. With QUARRY_DISABLE=1 the program learns that there is no limit. It
 * looks the functions up by dlsym, like a program that also runs without Quarry.
 */
#include "check.h"

static int (*set_limit)(size_t);
static size_t (*limit)(void);

static size_t fill(void **blocks, size_t most, size_t size)
{
    size_t count = 0;
    while (count < most && (blocks[count] = malloc(size)) != NULL)
        memset(blocks[count++], 7, size);
    return count;
}

int main(int count, char **arguments)
{
    set_limit = (int (*)(size_t))dlsym(RTLD_DEFAULT, "quarry_set_limit");
    limit = (size_t (*)(void))dlsym(RTLD_DEFAULT, "quarry_limit");
    CHECK(set_limit != NULL && limit != NULL, "the library does not export its functions");
    if (count > 1 && strcmp(arguments[1], "disabled") == 0) {
        errno = 0;
        CHECK(set_limit(MIB) == -1 && errno == ENOTSUP, "a limit without a heap");
        CHECK(limit() == SIZE_MAX, "a limit of nothing");
        return 0;
    }
    static void *blocks[2000];
    CHECK(limit() == SIZE_MAX || limit() > 512 * MIB, "an unset limit: %zu", limit());
    size_t before = limit();
    errno = 0;
    CHECK(set_limit(0) == -1 && errno == EINVAL && limit() == before, "a limit of nothing");
    CHECK(set_limit(4095) == -1 && limit() == before, "a limit below a page");
    CHECK(set_limit(64 * MIB + 100) == 0, "no limit can be set");
    CHECK(limit() == 64 * MIB, "%zu is not what was set, in whole frames", limit());
    errno = 0;
    size_t first = fill(blocks, LENGTH(blocks), 100 * KIB);
    CHECK(errno == ENOMEM, "refused without ENOMEM");
    CHECK(first * 100 * KIB <= 64 * MIB, "%zu blocks are more than the limit", first);
    CHECK(first * 100 * KIB >= 56 * MIB, "%zu blocks are far from the limit", first);
    /* A limit below the memory in use: requests fail, and nothing is lost. */
    CHECK(set_limit(16 * MIB) == 0 && malloc(100 * KIB) == NULL, "beyond the new limit");
    for (size_t block = 0; block < first; block++)
        CHECK(((unsigned char *)blocks[block])[100 * KIB - 1] == 7, "block %zu was lost", block);
    CHECK(set_limit(128 * MIB) == 0, "no higher limit can be set");
    size_t second = fill(blocks + first, LENGTH(blocks) - first, 100 * KIB);
    CHECK((first + second) * 100 * KIB >= 120 * MIB, "%zu blocks more", second);
    CHECK(set_limit(SIZE_MAX) == 0 && limit() == before, "%zu was not lifted", limit());
    size_t third = fill(blocks + first + second, 200, 100 * KIB);
    CHECK(third == 200, "refused after %zu blocks without a limit", third);
    for (size_t block = 0; block < first + second + third; block++)
        free(blocks[block]);
    puts("done");
    return 0;
}
