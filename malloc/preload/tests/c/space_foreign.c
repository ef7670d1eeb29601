/*
 * The program maps something where the heap would grow: the heap leaves it alone, hands out memory
 * around it, and does not take it for an allocation.
 */
#include "deadline.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { STRANGERS = 40, BLOCKS = 700 };

int main(void)
{
    static unsigned char *strangers[STRANGERS], *blocks[BLOCKS];
    size_t sizes[] = {3 * MIB, 700 * KIB, 20 * KIB, 9 * MIB};
    require_quarry();
    deadline(80, "allocating beside foreign memory");
    char *begin = malloc(100), *large = malloc(3 * MIB);
    CHECK(begin != NULL && large != NULL, "malloc");
    char *ends[] = {begin, large};
    for (int i = 0; i < STRANGERS; i++) {
        /* After a small object, and after a large one: where zones and mappings grow. */
        char *at = (char *)((uintptr_t)ends[i % 2] / (2 * MIB) * (2 * MIB));
        at += (size_t)(8 + 7 * i) * 2 * MIB + (size_t)(i % 3) * MIB;
        void *got = mmap(at, PAGE * (size_t)(1 + i), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        CHECK(got == at, "nothing is mapped there yet: %p", (void *)at);
        strangers[i] = got;
        memset(got, 0x5c, PAGE * (size_t)(1 + i));
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = sizes[i % (int)LENGTH(sizes)];
            blocks[i] = malloc(size);
            CHECK(blocks[i] != NULL, "malloc(%zu)", size);
            pattern_fill(blocks[i], size, (uint64_t)i);
        }
        for (int i = 0; i < STRANGERS; i++)
            for (size_t at = 0; at < PAGE * (size_t)(1 + i); at++)
                CHECK(strangers[i][at] == 0x5c, "stranger %d was overwritten at %zu", i, at);
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = sizes[i % (int)LENGTH(sizes)];
            CHECK_PATTERN(blocks[i], size, (uint64_t)i);
            free(blocks[i]);
        }
        check_heap("beside foreign memory");
        malloc_trim(0);
    }
    for (int i = 0; i < STRANGERS; i++)
        CHECK(strangers[i][0] == 0x5c, "stranger %d is gone", i);
    printf("%p\n", (void *)strangers[0]);
    fflush(stdout);
    free(opaque(strangers[0]));
    CHECK(0, "free of foreign memory went unnoticed");
}
