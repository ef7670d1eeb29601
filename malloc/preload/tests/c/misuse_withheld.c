// The program splits a block into several mappings, and frees it when the system allows no more
// mappings. The next owner of its memory can use all of it.
#include "check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BYTES = 400000, MOST_MAPPINGS = 70000 };

int main(void) {
    char *in_front = malloc(200000), *block = malloc(BYTES), *behind = malloc(200000);
    memset(in_front, 1, 200000);
    memset(block, 1, BYTES);
    memset(behind, 1, 200000);
    // Programs that keep secrets do the same.
    size_t page = system_page();
    char *front = block + (-(uintptr_t)block & (page - 1));
    CHECK(madvise(front, 8 * PAGE, MADV_DONTDUMP) == 0, "the front is no mapping of its own");
    char *many = mmap(NULL, 2UL * MOST_MAPPINGS * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(many != MAP_FAILED, "no addresses");
    long made = 0;
    while (made < MOST_MAPPINGS
           && mprotect(many + 2 * (size_t)made * page, page, PROT_READ) == 0)
        made++;
    if (made == MOST_MAPPINGS) return 0;
    CHECK(errno == ENOMEM, "refused for another reason");
    free(block);
    for (int round = 0; round < 8; round++) {
        char *next = malloc(BYTES);
        if (next) memset(next, 2, BYTES);
    }
    munmap(many, 2UL * MOST_MAPPINGS * page);
    char *last = malloc(BYTES);
    CHECK(last, "no memory");
    memset(last, 3, BYTES);
    return 0;
}
