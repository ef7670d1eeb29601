/*
 * Executes another program or itself under `ulimit -v` (as) or `ulimit -d` (data). Fills the memory
 * with objects of each size in turn until malloc returns NULL with ENOMEM, frees everything, and
 * fills it again: three quarters as many must fit.
 * usage: hostile_limit as|data MIB exec PROGRAM [ARGUMENT...]
 *        hostile_limit as|data MIB fill SIZE...
 */
#include "check.h"

#include <sys/resource.h>

enum { MOST = 1 << 18 };
static void *objects[MOST];

static size_t allocate_until_refused(size_t size)
{
    size_t count = 0;
    while (count < MOST) {
        errno = 0;
        objects[count] = malloc(size);
        if (objects[count] == NULL) {
            CHECK(errno == ENOMEM, "malloc(%zu) failed at %zu", size, count);
            return count;
        }
        pattern_fill(objects[count], size, count);
        count++;
    }
    CHECK(0, "no limit was met after %d times %zu", MOST, size);
}

static void free_all(size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        CHECK_PATTERN(objects[i], size, i);
        free(objects[i]);
    }
}

/* Fills the memory, frees everything, and fills it again: at least three quarters as much fits. */
static void fill_twice(size_t size, size_t limit)
{
    size_t first = allocate_until_refused(size);
    free_all(first, size);
    size_t second = allocate_until_refused(size);
    free_all(second, size);
    CHECK(first * size >= limit / 4, "only %zu times %zu under a limit of %zu", first, size, limit);
    CHECK(second * 4 >= first * 3, "%zu times %zu, then only %zu", first, size, second);
}

/* At the limit, small requests and realloc fail, and live objects keep their contents. */
static void live_at_the_limit(void)
{
    size_t count = allocate_until_refused(64 * KIB);
    CHECK(count > 10, "only %zu objects of 64 KiB", count);
    for (size_t i = 0; i < 10; i++) {
        errno = 0;
        void *grown = realloc(objects[i], 64 * MIB);
        CHECK(grown == NULL && errno == ENOMEM, "realloc to 64 MiB at the limit: %p", grown);
        CHECK_PATTERN(objects[i], 64 * KIB, i);
    }
    free_all(count, 64 * KIB);
    void *object = malloc(1000);
    CHECK(object != NULL, "malloc(1000) after everything was freed");
    free(object);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 5, "usage: %s as|data MIB exec|fill ...", argv[0]);
    int resource = strcmp(argv[1], "as") == 0 ? RLIMIT_AS : RLIMIT_DATA;
    size_t limit = (size_t)atol(argv[2]) * MIB;
    int others = strcmp(argv[3], "exec") == 0;
    struct rlimit now;
    CHECK(getrlimit(resource, &now) == 0, "getrlimit");
    if (now.rlim_cur != limit) {
        now.rlim_cur = limit;
        CHECK(setrlimit(resource, &now) == 0, "setrlimit");
        execv(others ? argv[4] : argv[0], others ? argv + 4 : argv);
        CHECK(0, "cannot execute %s", others ? argv[4] : argv[0]);
    }
    require_quarry();
    for (int i = 4; i < argc; i++)
        fill_twice(strtoul(argv[i], NULL, 10), limit);
    live_at_the_limit();
    return 0;
}
