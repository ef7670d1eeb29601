/*
 * What glibc's <malloc.h> declares beyond musl's. The library under test defines these functions
 * for programs of either, so they are weak where the program is linked.
 */
#ifndef QUARRY_TEST_GLIBC_MALLOC_H
#define QUARRY_TEST_GLIBC_MALLOC_H

#include <stddef.h>
#include <stdio.h>

#define OF_THE_LIBRARY __attribute__((weak))

#define MALLINFO(name, type)                                                                  \
    struct name {                                                                             \
        type arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,     \
            keepcost;                                                                         \
    }
MALLINFO(mallinfo, int);
MALLINFO(mallinfo2, size_t);

OF_THE_LIBRARY struct mallinfo mallinfo(void);
OF_THE_LIBRARY struct mallinfo2 mallinfo2(void);
OF_THE_LIBRARY int mallopt(int parameter, int value);
OF_THE_LIBRARY int malloc_trim(size_t pad);
OF_THE_LIBRARY int malloc_info(int options, FILE *stream);
OF_THE_LIBRARY void malloc_stats(void);
OF_THE_LIBRARY void *pvalloc(size_t size);

/* glibc 2.36 */
enum {
    M_ARENA_MAX = -8,
    M_ARENA_TEST = -7,
    M_PERTURB = -6,
    M_CHECK_ACTION = -5,
    M_MMAP_MAX = -4,
    M_MMAP_THRESHOLD = -3,
    M_TOP_PAD = -2,
    M_TRIM_THRESHOLD = -1,
    M_MXFAST = 1,
    M_NLBLKS = 2,
    M_GRAIN = 3,
    M_KEEP = 4
};

/* musl ignores this flag of dlopen. */
#define RTLD_DEEPBIND 8

#endif
