/*
 * usage: limits_neighbour released|cache LIMIT_MIB FILE
 * Allocates in a control group that this program shares with another process, or with page cache.
 */
#include "memory.h"

#include <sys/wait.h>

static size_t limit;

/* Allocates and touches small objects until there are no more, or `most` bytes; they stay. */
static size_t fill(size_t most)
{
    size_t bytes = 0;
    for (void *object; bytes < most && (object = malloc(4000)) != NULL; bytes += 4000)
        memset(object, 1, 4000);
    return bytes;
}

/* A neighbour holds half of the limit, and releases it when small requests are refused. */
static void released(void)
{
    int ready[2], go[2];
    CHECK(pipe(ready) == 0 && pipe(go) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        char byte;
        unsigned char *start = mmap(NULL, limit / 2, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        CHECK(start != MAP_FAILED && write(ready[1], "x", 1) == 1, "no memory to hold");
        CHECK(read(go[0], &byte, 1) == 1 && munmap(start, limit / 2) == 0, "munmap");
        CHECK(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1, "no end");
        _exit(0);
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1, "the neighbour does not answer");
    size_t first = fill(limit);
    CHECK(first >= limit / 4 && first <= limit / 2, "%zu bytes beside the neighbour", first);
    CHECK(write(go[1], "x", 1) == 1 && read(ready[0], &byte, 1) == 1, "it does not release");
    double start = seconds_now();
    while (opaque(malloc(4000)) == NULL) {
        CHECK(seconds_now() - start < 5, "still refused when half of the group is free");
        nap_ms(1);
    }
    size_t more = fill(limit / 4);
    CHECK(more >= limit / 4, "only %zu bytes more", more);
    CHECK(write(go[1], "x", 1) == 1 && waitpid(child, NULL, 0) == child, "wait");
}

/* The page cache of a file that was read again and again fills three quarters of the limit. */
static void cache(const char *path)
{
    size_t bytes = limit / 4 * 3;
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(file >= 0, "%s", path);
    static char piece[MIB];
    memset(piece, 1, sizeof(piece));
    for (size_t at = 0; at < bytes; at += sizeof(piece))
        CHECK(pwrite(file, piece, sizeof(piece), (off_t)at) == (ssize_t)sizeof(piece), "pwrite");
    CHECK(fsync(file) == 0, "fsync");
    for (int round = 0; round < 3; round++)
        for (size_t at = 0; at < bytes; at += sizeof(piece))
            CHECK(pread(file, piece, sizeof(piece), (off_t)at) == (ssize_t)sizeof(piece), "pread");
    printf("%zu KiB are charged\n", charged_bytes() / KIB);
    size_t got = fill(limit / 2);
    CHECK(got >= limit / 2, "only %zu bytes beside page cache under a limit of %zu", got, limit);
    close(file);
    unlink(path);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4, "usage: %s released|cache LIMIT_MIB FILE", argv[0]);
    require_quarry();
    limit = (size_t)atol(argv[2]) * MIB;
    if (strcmp(argv[1], "released") == 0)
        released();
    else
        cache(argv[3]);
    return 0;
}
