/*
 * Runs under every limit from next to nothing to what a run needs, in steps of the smallest slab,
 * so that each allocation that needs memory is refused under some limit: malloc returns NULL with
 * ENOMEM, contents stay, every invariant holds, and the program goes on with what it has freed.
 */
#include "refused.h"

enum { STEP = 16 * 1024, WAS_REFUSED = 3 };

/* From here on, steps are four times as large: only blocks and mappings are left to be refused. */
static const size_t LARGE = 3 * MIB;
/* The smallest limit under which nothing is refused is below this. */
static const size_t MOST = 64 * MIB;

/* One run, in a program that started under a limit. */
static int run(void)
{
    deadline(60, "a run under a limit");
    int cold = play();
    /* Now each size that is asked for has slabs of its own. */
    int first = play();
    int second = play();
    /* Freed memory serves again; pages that other sizes hold may be cut differently. */
    CHECK(second <= first + 2, "%d requests refused, then %d", first, second);
    return cold + first > 0 ? WAS_REFUSED : 0;
}

/* Starts this program again under `limit`; whether anything was refused. */
static int is_refused_under(size_t limit)
{
    char text[32];
    snprintf(text, sizeof(text), "%zu", limit);
    CHECK(setenv("QUARRY_LIMIT", text, 1) == 0, "setenv");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        execl("/proc/self/exe", "around_limit", "run", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFEXITED(status) && (status == 0 || WEXITSTATUS(status) == WAS_REFUSED),
          "under %zu bytes: %#x", limit, status);
    return status != 0;
}

int main(int argc, char **argv)
{
    CHECK(argc <= 2, "usage: %s [run]", argv[0]);
    if (argc == 2)
        return run();
    require_quarry();
    size_t limit = STEP;
    int limits = 0;
    while (is_refused_under(limit)) {
        limit += (limit < LARGE ? STEP : 4 * STEP) * (size_t)test_step();
        limits++;
        CHECK(limit < MOST, "still refused under %zu bytes", limit);
    }
    printf("refused under %d limits, up to %zu bytes\n", limits, limit);
    CHECK(testing_a_peer() || limit > MIB, "nothing was refused under %zu bytes", limit);
    return 0;
}
