/*
 * Takes far more addresses than memory: blocks of half the machine's memory, 4 TiB in all. Touches
 * both ends of each block. One block grows, and small requests go on beside the blocks.
 */
#include "memory.h"
#include <sys/sysinfo.h>

#define ADDRESSES ((size_t)4 << 40)

static void touch_ends(char *block, size_t size)
{
    block[0] = 1;
    block[size - 1] = 2;
}

int main(void)
{
    require_quarry();
    struct sysinfo system;
    CHECK(sysinfo(&system) == 0, "sysinfo");
    size_t size = (size_t)system.totalram * system.mem_unit / 2;
    size_t count = ADDRESSES / size;
    char **blocks = malloc(count * sizeof(char *));
    CHECK(blocks != NULL, "malloc");
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL, "block %zu of %zu bytes", i, size);
        touch_ends(blocks[i], size);
    }
    blocks[0] = realloc(blocks[0], size + size / 4);
    CHECK(blocks[0] != NULL && blocks[0][0] == 1 && blocks[0][size - 1] == 2, "realloc");
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        char *object = malloc(EDGE_SIZES[i]);
        CHECK(object != NULL, "malloc(%zu)", EDGE_SIZES[i]);
        free(object);
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(blocks[i][0] == 1 && malloc_usable_size(blocks[i]) >= size, "block %zu", i);
        free(blocks[i]);
    }
    free(blocks);
    check_heap("after 4 TiB");
    return 0;
}
