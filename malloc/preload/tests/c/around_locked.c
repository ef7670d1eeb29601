/*
 * Switches mlockall on before and between allocations. Memory that is mapped later is locked, too;
 * locked memory cannot be given back. Exits with 77 and a reason where it may not lock.
 */
#include "deadline.h"

#include <sys/mman.h>
#include <sys/resource.h>

static void churn(int steps)
{
    static void *slots[300];
    static size_t sizes[300];
    uint64_t random = 13;
    for (int step = 0; step < steps; step++) {
        size_t slot = next_random(&random) % LENGTH(slots);
        size_t size = random_size(&random, step % 200 == 0 ? 3 * MIB : 4000);
        if (slots[slot] != NULL)
            CHECK_PATTERN(slots[slot], sizes[slot], slot);
        free(slots[slot]);
        slots[slot] = step % 3 == 0 ? calloc(1, size) : malloc(size);
        CHECK(slots[slot] != NULL, "allocation of %zu", size);
        for (size_t i = 0; step % 3 == 0 && i < size; i++)
            CHECK(((char *)slots[slot])[i] == 0, "calloc(%zu) is not zero at %zu", size, i);
        pattern_fill(slots[slot], size, slot);
        sizes[slot] = size;
        if (step % 2000 == 0)
            malloc_trim(0);
    }
    for (size_t i = 0; i < LENGTH(slots); i++) {
        free(slots[i]);
        slots[i] = NULL;
    }
}

int main(void)
{
    require_quarry();
    deadline(80, "allocating in locked memory");
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "getrlimit");
    for (int flags = MCL_FUTURE; flags <= (MCL_FUTURE | MCL_CURRENT); flags++) {
        if (mlockall(flags) != 0) {
            if (errno != EPERM && limit.rlim_cur == RLIM_INFINITY)
                CHECK(0, "mlockall(%d) without a limit", flags);
            printf("mlockall(%d): %s, RLIMIT_MEMLOCK is %lu\n", flags, strerror(errno),
                   (unsigned long)limit.rlim_cur);
            return 77;
        }
        churn(15000);
        size_t resident = resident_bytes();
        CHECK(resident < 512 * MIB, "%zu bytes are resident: unused memory is locked", resident);
        CHECK(munlockall() == 0, "munlockall");
        churn(4000);
    }
    return 0;
}
