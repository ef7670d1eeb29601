/*
 * usage: memory_pairs PAIRS BUFFERS SIZE..
 * Allocates and frees each size in turn, PAIRS times, with BUFFERS blocks live at a time, and
 * touches all their bytes. The test counts system calls between two calls of getppid; this program
 * counts the page faults after the first rounds.
 */
#include "memory.h"

static void touch(unsigned char *start, size_t size)
{
    for (size_t at = 0; at < size; at += PAGE)
        start[at] = 1;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 4, "usage: %s PAIRS BUFFERS SIZE..", argv[0]);
    require_quarry();
    long pairs = strtol(argv[1], NULL, 10);
    size_t buffers = strtoul(argv[2], NULL, 10);
    unsigned char *live[64] = {NULL};
    CHECK(buffers > 0 && buffers <= LENGTH(live), "%zu buffers", buffers);
    for (int i = 3; i < argc; i++) {
        size_t size = strtoul(argv[i], NULL, 10);
        long before = 0;
        for (long pair = -2 * (long)buffers; pair < pairs; pair++) {
            if (pair == 0) {
                before = minor_faults();
                getppid();
            }
            size_t slot = (size_t)(pair + 2 * (long)buffers) % buffers;
            free(live[slot]);
            live[slot] = malloc(size);
            CHECK(live[slot] != NULL, "malloc(%zu)", size);
            touch(live[slot], size);
        }
        getppid();
        long faults = minor_faults() - before;
        /* A block may move when the background thread empties this CPU's lists, but few do. */
        long most = 16 + 2 * (long)(size / PAGE);
        CHECK(faults <= most, "%ld page faults in %ld pairs of %zu bytes", faults, pairs, size);
    }
    return 0;
}
