/*
 * The kernel refuses to move pages after it has unmapped the target, as mremap may at a limit of
 * address space, or for a source of several mappings (Linux 5.7 to 6.16). With `fills`, another
 * part of the program maps something into the hole at once. Contents stay, and Quarry never touches
 * foreign memory.
 */
#include "deadline.h"
#include "system_call.h"

#include <sys/mman.h>

static int fills;
static int refusals;
static unsigned char *strangers[64];
static size_t stranger_bytes[64];

/* The allocator's bare system calls. */
long syscall(long number, ...)
{
    va_list rest;
    va_start(rest, number);
    long words[6];
    for (size_t i = 0; i < LENGTH(words); i++)
        words[i] = va_arg(rest, long);
    va_end(rest);
    if (number != SYS_mremap || (words[3] & MREMAP_FIXED) == 0)
        return system_call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    size_t new_bytes = (size_t)words[2];
    void *target = (void *)words[4];
    CHECK(munmap(target, new_bytes) == 0, "the target was mapped");
    if (fills && refusals < (int)LENGTH(strangers)) {
        void *got = mmap(target, new_bytes / 2, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        CHECK(got == target, "the hole is free: %p", got);
        memset(got, 0xab, new_bytes / 2);
        strangers[refusals] = got;
        stranger_bytes[refusals] = new_bytes / 2;
    }
    refusals++;
    errno = ENOMEM;
    return -1;
}

/* The first and the last byte of each page. */
static void check_strangers(void)
{
    for (size_t i = 0; i < LENGTH(strangers) && strangers[i] != NULL; i++)
        for (size_t at = 0; at < stranger_bytes[i]; at += at % PAGE == 0 ? PAGE - 1 : 1)
            CHECK(strangers[i][at] == 0xab, "a foreign mapping was overwritten");
}

int main(int count, char **arguments)
{
    enum { BUFFERS = 4 };
    unsigned char *buffers[BUFFERS];
    require_quarry();
    deadline(80, "growing where pages cannot be moved");
    fills = count > 1 && strcmp(arguments[1], "fills") == 0;
    size_t size = 3 * MIB;
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = malloc(size);
        CHECK(buffers[i] != NULL, "malloc");
        pattern_fill(buffers[i], size, (uint64_t)i);
    }
    /* The buffers grow by turns, so that each stands in another's way. */
    for (int step = 0; step < 4; step++) {
        size_t larger = size + size / 2 + 100;
        for (int i = 0; i < BUFFERS; i++) {
            buffers[i] = realloc(buffers[i], larger);
            CHECK(buffers[i] != NULL, "realloc to %zu", larger);
            CHECK_PATTERN(buffers[i], size, (uint64_t)i);
            pattern_fill(buffers[i], larger, (uint64_t)i);
            check_strangers();
        }
        size = larger;
        check_heap("after a refused move");
    }
    CHECK(refusals > 0, "no pages were to be moved");
    for (int i = 0; i < BUFFERS; i++) {
        CHECK_PATTERN(buffers[i], size, (uint64_t)i);
        free(buffers[i]);
    }
    for (int i = 0; i < 60; i++) {
        void *block = malloc((size_t)(i % 20 + 1) * MIB);
        CHECK(block != NULL, "malloc");
        memset(block, i, (size_t)(i % 20 + 1) * MIB);
        check_strangers();
        free(block);
    }
    malloc_trim(0);
    check_strangers();
    check_heap("at the end");
    return 0;
}
