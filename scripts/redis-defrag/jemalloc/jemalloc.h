/*
 * The functions that redis calls in its own jemalloc, on libquarry-full.so: an unchanged redis that
 * is built with USE_JEMALLOC and this folder on its include path can defragment its memory on
 * Quarry. scripts/redis-defrag.sh builds it so.
 */
#ifndef QUARRY_AS_JEMALLOC_H
#define QUARRY_AS_JEMALLOC_H

#include <errno.h>
#include <malloc.h>
#include <quarry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `INFO memory` shows jemalloc-5.3.0-as-quarry, and redis's own tests of defragmentation run. */
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 0-as-quarry
#define JEMALLOC_FRAG_HINT
#define MALLOCX_TCACHE_NONE 1

#define je_malloc malloc
#define je_calloc calloc
#define je_realloc realloc
#define je_free free
#define je_malloc_usable_size malloc_usable_size
/* 0: redis then always calls realloc, and Quarry's leaves an object where it is, if it can. */
#define je_nallocx(size, flags) ((size_t)0)
#define je_mallocx(size, flags) quarry_malloc_dense(size)
#define je_dallocx(pointer, flags) quarry_free_dense(pointer)

static inline int je_get_defrag_hint(void *pointer)
{
    quarry_occupancy_t it;
    quarry_occupancy(&pointer, 1, &it);
    return (int)it.is_sparse;
}

static inline int quarry_as_stat(const char *name, size_t *value)
{
    quarry_budget budget;
    struct mallinfo2 heap = mallinfo2();
    if (strcmp(name, "stats.allocated") == 0) {
        *value = heap.uordblks + heap.hblkhd;
        return 0;
    }
    if (strcmp(name, "stats.active") == 0) {
        /* As in jemalloc, without the memory that is held for later requests. */
        if (quarry_budget_read(&budget, sizeof budget) != 0)
            return EAGAIN;
        *value = budget.used - budget.slab_reclaimable;
        return 0;
    }
    if (strcmp(name, "stats.resident") == 0) {
        size_t size, resident = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (file == NULL)
            return EAGAIN;
        if (fscanf(file, "%zu %zu", &size, &resident) != 2)
            resident = 0;
        fclose(file);
        *value = resident * (size_t)sysconf(_SC_PAGESIZE);
        return 0;
    }
    if (strcmp(name, "arenas.page") == 0) {
        *value = 4096;
        return 0;
    }
    return ENOENT;
}

static inline int je_mallctl(const char *name, void *old, size_t *bytes, void *new, size_t given)
{
    (void)new, (void)given;
    if (strcmp(name, "epoch") == 0 || strcmp(name, "background_thread") == 0)
        return 0;
    if (strcmp(name, "arenas.narenas") == 0) {
        *(unsigned *)old = 1;
        return 0;
    }
    if (strcmp(name, "thread.tcache.flush") == 0 && old != NULL)
        return EPERM;
    if (strcmp(name, "thread.tcache.flush") == 0 || strncmp(name, "arena.", 6) == 0) {
        malloc_trim(0);
        return 0;
    }
    return *bytes == sizeof(size_t) ? quarry_as_stat(name, old) : EINVAL;
}

static inline void je_malloc_stats_print(void (*print)(void *, const char *), void *to, char *what)
{
    (void)what;
    print(to, "see quarry top\n");
}

#endif
