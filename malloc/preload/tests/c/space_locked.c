/*
 * Locked memory that was freed goes back or is used again, and one locked buffer does not keep all
 * others from going back. Exits with 77 and a reason where it may not lock.
 */
#include "deadline.h"
#include "memory.h"

static int not_allowed(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    return 77;
}

int main(void)
{
    require_quarry();
    deadline(80, "freeing locked memory");
    if (mlockall(MCL_FUTURE) != 0)
        return not_allowed("mlockall");
    void *live = malloc(120 * MIB);
    if (live == NULL)
        return not_allowed("malloc of locked memory");
    for (int i = 0; i < 20; i++) {
        void *block = malloc(100 * MIB);
        CHECK(block != NULL, "malloc number %d", i);
        memset(block, i, 100 * MIB);
        /* Locks mappings that were made before mlockall, too. Programs rarely unlock what they
         * locked. */
        if (mlock(block, 100 * MIB) != 0)
            return not_allowed("mlock");
        free(block);
    }
    size_t resident = resident_bytes();
    CHECK(resident < 320 * MIB, "%zu bytes are resident where 120 MiB live", resident);
    free(live);
    CHECK(munlockall() == 0, "munlockall");
    check_heap("after locking");
    return 0;
}
