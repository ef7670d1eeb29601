/*
 * Parts of every test program: checks that report what happened, proof that Quarry serves the
 * program, and contents by which an object can be recognised.
 */
#ifndef QUARRY_TEST_CHECK_H
#define QUARRY_TEST_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef __GLIBC__
#include "glibc_malloc.h"
#endif

#define UNUSED __attribute__((unused))
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
/* Bytes of a frame; the system's page may be larger. */
#define PAGE ((size_t)4096)
#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

static UNUSED size_t system_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Demands `condition`; otherwise prints the condition with the formatted details and exits. */
#define CHECK(condition, ...)                                              \
    do {                                                                   \
        if (!(condition))                                                  \
            check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__);     \
    } while (0)

/* Prints through a buffer on the stack, because the heap under test may be broken. */
__attribute__((noreturn, format(printf, 4, 5))) static void
check_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    char text[1024];
    int saved = errno;
    int used = snprintf(text, sizeof(text), "%s:%d: `%s` does not hold: ", file, line, condition);
    va_list args;
    va_start(args, format);
    used += vsnprintf(text + used, sizeof(text) - (size_t)used, format, args);
    va_end(args);
    if (used > (int)sizeof(text) - 40)
        used = (int)sizeof(text) - 40;
    used += snprintf(text + used, sizeof(text) - (size_t)used, " (errno %d, pid %d)\n", saved,
                     (int)getpid());
    ssize_t written = write(2, text, (size_t)used);
    _exit(written == used ? 1 : 2);
}

/* Hides from the compiler what `pointer` points to. */
static inline void *opaque(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

/* Hides a size from the compiler, so that it does not warn of impossible sizes. */
static inline size_t opaque_size(size_t size)
{
    __asm__ volatile("" : "+r"(size));
    return size;
}

/* Returns whether the program runs on another allocator than Quarry, to test the program. */
static UNUSED int testing_a_peer(void)
{
    return getenv("TEST_PEER") != NULL;
}

#ifdef __GLIBC__
#define LIBC_FILE "libc.so.6"
#else
#define LIBC_FILE "libc.so"
#endif

/* A function of the C library itself, even if another object defines it first. */
static UNUSED void *libc_function(const char *name)
{
    void *libc = dlopen(LIBC_FILE, RTLD_LAZY | RTLD_NOLOAD);
    CHECK(libc != NULL, "the C library is not loaded: %s", dlerror());
    return dlsym(libc, name);
}

/* Bytes that the C library's own allocator has in use; musl does not tell. */
static UNUSED size_t libc_bytes(void)
{
#ifdef __GLIBC__
    struct mallinfo2 (*info)(void) = (struct mallinfo2(*)(void))libc_function("mallinfo2");
    CHECK(info != NULL, "the C library has no mallinfo2");
    struct mallinfo2 now = info();
    return now.uordblks + now.hblkhd;
#else
    return 0;
#endif
}

/* The file of the object that defines the symbol `name`. */
static UNUSED const char *file_of_symbol(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address != NULL, "no object defines %s", name);
    Dl_info info;
    CHECK(dladdr(address, &info) != 0, "%s lies in no file", name);
    return info.dli_fname;
}

/* Demands that Quarry serves this process: its symbols are found, and glibc's heap is unused. */
static UNUSED void require_quarry(void)
{
    static const char *const entries[] = {"malloc", "free", "calloc", "realloc", "posix_memalign"};
    if (testing_a_peer())
        return;
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "quarry_version");
    CHECK(version != NULL, "the library is not loaded: no quarry_version");
    CHECK(version() != NULL && version()[0] != 0, "quarry_version says nothing");
    for (size_t i = 0; i < LENGTH(entries); i++) {
        const char *file = file_of_symbol(entries[i]);
        CHECK(strstr(file, "libquarry") != NULL, "%s comes from %s", entries[i], file);
    }
    size_t before = libc_bytes();
    void *small = opaque(malloc(opaque_size(100)));
    void *large = opaque(malloc(opaque_size(MIB)));
    CHECK(small != NULL && large != NULL, "malloc failed: %p, %p", small, large);
    CHECK(libc_bytes() == before, "libc served the allocations: %zu bytes, then %zu", before,
          libc_bytes());
    free(small);
    free(large);
}

/* Demands that every invariant of the heap holds, if the library can check them. No other thread
 * may use the heap during the check. */
static UNUSED void check_heap(const char *when)
{
    int (*validate)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "quarry_validate");
    int is_full = dlsym(RTLD_DEFAULT, "quarry_cache_create") != NULL;
    CHECK(validate != NULL || !is_full, "the library has no quarry_validate");
    CHECK(validate == NULL || validate() == 0, "an invariant is broken %s", when);
}

static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The next number of the sequence that starts with the seed `*state`. */
static inline uint64_t next_random(uint64_t *state)
{
    return mix((*state)++);
}

/* A random size from 1 to `limit`; all powers of two are equally likely. */
static UNUSED size_t random_size(uint64_t *state, size_t limit)
{
    unsigned powers = 64 - (unsigned)__builtin_clzl(limit);
    size_t least = (size_t)1 << (next_random(state) % powers);
    size_t size = least + next_random(state) % least;
    return size <= limit ? size : limit;
}

/*
 * Contents of an object: a function of the seed and the offset only, so that they can be checked
 * after a realloc to any size. Up to 64 KiB every byte is checked, above that the first and the
 * last 64 bytes of each page.
 */
enum { PATTERN_DENSE = 64 * 1024, PATTERN_EDGE = 64 };

static inline size_t pattern_next(size_t offset)
{
    size_t in_page = offset % PAGE;
    if (offset < PATTERN_DENSE || in_page < PATTERN_EDGE || in_page >= PAGE - PATTERN_EDGE)
        return offset;
    return offset - in_page + PAGE - PATTERN_EDGE;
}

static UNUSED void pattern_fill(void *object, size_t size, uint64_t seed)
{
    unsigned char *bytes = (unsigned char *)object;
    for (size_t at = 0; at < size; at = pattern_next(at + 8)) {
        uint64_t word = mix(seed ^ at);
        memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
    }
}

/* The first offset where the contents differ from the pattern; `size` if they do not. */
static UNUSED size_t pattern_mismatch(const void *object, size_t size, uint64_t seed)
{
    const unsigned char *bytes = (const unsigned char *)object;
    for (size_t at = 0; at < size; at = pattern_next(at + 8)) {
        uint64_t word = mix(seed ^ at);
        if (memcmp(bytes + at, &word, size - at < 8 ? size - at : 8) != 0)
            return at;
    }
    return size;
}

#define CHECK_PATTERN(object, size, seed)                                                      \
    do {                                                                                       \
        size_t differs = pattern_mismatch(object, size, seed);                                 \
        CHECK(differs == (size), "%p of %zu bytes changed at offset %zu", (void *)(object),    \
              (size_t)(size), differs);                                                        \
    } while (0)

/* Sizes on both sides of every boundary between two ways of allocating. */
static const size_t EDGE_SIZES[] UNUSED = {
    1,          2,           7,           8,           9,           15,         16,
    17,         24,          31,          32,          33,          48,         63,
    64,         65,          100,         127,         128,         129,        200,
    255,        256,         257,         511,         512,         513,        1000,
    1023,       1024,        1025,        2047,        2048,        2049,       4000,
    4095,       4096,        4097,        6000,        8191,        8192,       8193,
    12288,      16383,       16384,       16385,       20000,       32767,      32768,
    32769,      40000,       65535,       65536,       65537,       100000,     131071,
    131072,     131073,      262144,      262145,      500000,      524288,     1048575,
    1048576,    1048577,     2097151,     2097152,     2097153,     3000000,    4194303,
    4194304,    4194305,     8388608,     8388609,     16777216,    16777217,   33554432,
};

/* Resident memory of this process in bytes; reads /proc without allocating. */
static UNUSED size_t resident_bytes(void)
{
    char text[128] = {0};
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "/proc/self/statm cannot be opened");
    CHECK(read(file, text, sizeof(text) - 1) > 0, "/proc/self/statm cannot be read");
    close(file);
    unsigned long total, resident;
    CHECK(sscanf(text, "%lu %lu", &total, &resident) == 2, "strange statm: %s", text);
    return resident * system_page();
}

#endif
