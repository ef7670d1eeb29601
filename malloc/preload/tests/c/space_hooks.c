/*
 * Another part of the program has replaced the functions by which memory is mapped, as tools for
 * remote memory access (UCX, libfabric), trackers and container tools do. The argument says how:
 *
 * four       `mremap` has four arguments and passes on no more, as in UCX up to 1.13
 * refuses    `mremap` fails
 * elsewhere  `mremap` moves pages to an address of the kernel's choice
 * watches    the functions note what they are told, like a cache of registered memory
 * fails      every few calls of `mmap`, `munmap` and `madvise` fail
 *
 * Contents survive each `realloc`, and whoever watches learns of all pages that leave their
 * addresses, before these addresses serve again.
 */
#include "deadline.h"
#include "system_call.h"

#include <sys/mman.h>

static const char *how = "";
static long calls, moves, unmapped, purged;
/* Between these the program has held memory. */
static uintptr_t lowest = UINTPTR_MAX, highest;
/* Where the pages that moved last have been, until `munmap` is told. */
static uintptr_t left;
static size_t left_bytes;

static int does(const char *what)
{
    return strcmp(how, what) == 0;
}

/* What every hook does first; returns whether it is to fail. */
static int hook(void)
{
    errno = ENOMEM;
    return ++calls % 5 == 0 && does("fails");
}

void *mremap(void *address, size_t bytes, size_t new_bytes, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    long target = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, long) : 0;
    va_end(rest);
    if (hook() || does("refuses"))
        return MAP_FAILED;
    if (does("four"))
        target = 0;
    if (does("elsewhere"))
        flags &= ~MREMAP_FIXED;
    return (void *)system_call(SYS_mremap, (long)address, (long)bytes, (long)new_bytes, flags,
                               target, 0);
}

void *mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset)
{
    if (hook())
        return MAP_FAILED;
    return (void *)system_call(SYS_mmap, (long)address, (long)bytes, access, flags, file, offset);
}

int munmap(void *address, size_t bytes)
{
    uintptr_t start = (uintptr_t)address;
    if (start <= left && left + left_bytes <= start + bytes)
        left_bytes = 0;
    if (hook())
        return -1;
    unmapped++;
    return (int)system_call(SYS_munmap, (long)address, (long)bytes, 0, 0, 0, 0);
}

int madvise(void *address, size_t bytes, int advice)
{
    if (hook())
        return -1;
    purged += advice == MADV_DONTNEED;
    return (int)system_call(SYS_madvise, (long)address, (long)bytes, advice, 0, 0, 0);
}

/* The allocator's bare system calls. */
long syscall(long number, ...)
{
    va_list rest;
    va_start(rest, number);
    long words[6];
    for (size_t i = 0; i < LENGTH(words); i++)
        words[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_munmap || (number == SYS_madvise && words[2] == MADV_DONTNEED)) {
        uintptr_t start = (uintptr_t)words[0], end = start + (uintptr_t)words[1];
        CHECK(end <= lowest || start >= highest, "a call that no watcher sees");
    }
    long result = system_call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number == SYS_mremap && (words[3] & MREMAP_FIXED) != 0 && result != -1) {
        left = (uintptr_t)words[0];
        left_bytes = (size_t)words[1];
        moves++;
    }
    return result;
}

enum { BUFFERS = 3 };

static unsigned char *buffers[BUFFERS];
static size_t sizes[BUFFERS];

/* Resizes a buffer. A refusal leaves it as it was. */
static void resize(int i, size_t size)
{
    unsigned char *resized = realloc(buffers[i], size);
    CHECK(left_bytes == 0, "no one was told of %zu bytes at %#lx", left_bytes, (long)left);
    CHECK(resized != NULL || does("fails"), "realloc to %zu", size);
    if (resized != NULL) {
        CHECK_PATTERN(resized, size < sizes[i] ? size : sizes[i], (uint64_t)i);
        buffers[i] = resized;
        sizes[i] = size;
        uintptr_t start = (uintptr_t)resized;
        lowest = start < lowest ? start : lowest;
        highest = start + size > highest ? start + size : highest;
    }
    pattern_fill(buffers[i], sizes[i], (uint64_t)i);
}

int main(int count, char **arguments)
{
    CHECK(count == 2, "usage: space_hooks HOW");
    require_quarry();
    deadline(80, "moving under hooks");
    how = arguments[1];
    /* The buffers grow by turns, so that each stands in another's way. */
    for (size_t size = 100 * KIB; size <= 100 * MIB; size += size / 2 + 4321)
        for (int i = 0; i < BUFFERS; i++)
            resize(i, size);
    check_heap("after growing");
    for (size_t size = 90 * MIB; size >= 100 * KIB; size -= size / 3)
        for (int i = 0; i < BUFFERS; i++)
            resize(i, size);
    check_heap("after shrinking");
    for (size_t size = 300 * KIB; size <= 20 * MIB; size *= 3)
        for (int i = 0; i < BUFFERS; i++)
            resize(i, size);
    for (int i = 0; i < BUFFERS; i++) {
        CHECK_PATTERN(buffers[i], sizes[i], (uint64_t)i);
        free(buffers[i]);
    }
    malloc_trim(0);
    check_heap("at the end");
    CHECK(unmapped > 0 && purged > 0, "%ld, %ld", unmapped, purged);
    CHECK(moves > 0, "no pages were to be moved");
    return 0;
}
