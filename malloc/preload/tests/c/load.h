/* All kinds of requests, as fast as possible, for processes that watch the system calls. */
#ifndef QUARRY_TEST_LOAD_H
#define QUARRY_TEST_LOAD_H

#include "check.h"

enum { BURST = 1500, LARGE = 4096, SMALL = 100000 };

/* Bursts of more objects than a CPU's arrays hold before they become wide. */
static UNUSED void bursts(void)
{
    static const size_t sizes[] = {16, 48, 112, 500, 1000, 4000};
    void *objects[BURST];
    for (size_t round = 0; round < 40; round++) {
        size_t size = sizes[round % LENGTH(sizes)];
        for (size_t i = 0; i < BURST; i++) {
            objects[i] = malloc(size);
            CHECK(objects[i] != NULL, "malloc(%zu)", size);
            memset(objects[i], (int)i, size);
        }
        for (size_t i = 0; i < BURST; i++)
            free(objects[i]);
    }
}

/* A heap that grows to 96 MiB, of objects larger and smaller than a page. All stay in use. */
struct heap {
    void *large[LARGE], *small[SMALL];
};

static UNUSED void grow(struct heap *heap)
{
    for (size_t i = 0; i < LARGE; i++) {
        heap->large[i] = malloc(16 * KIB);
        CHECK(heap->large[i] != NULL, "malloc");
        memset(heap->large[i], 7, 16 * KIB);
    }
    for (size_t i = 0; i < SMALL; i++) {
        heap->small[i] = malloc(320);
        CHECK(heap->small[i] != NULL, "malloc");
        memset(heap->small[i], 7, 320);
    }
}

static UNUSED void shrink(struct heap *heap)
{
    for (size_t i = 0; i < LARGE; i++)
        free(heap->large[i]);
    for (size_t i = 0; i < SMALL; i++)
        free(heap->small[i]);
}

/* A block that grows from a page to 24 MiB and shrinks again; and a zeroed block. */
static UNUSED void resize(void)
{
    unsigned char *block = NULL;
    for (size_t size = 4 * KIB; size <= 24 * MIB; size = size * 3 / 2) {
        block = realloc(block, size);
        CHECK(block != NULL, "realloc(%zu)", size);
        block[0] = block[size - 1] = 1;
    }
    block = realloc(block, 100);
    CHECK(block != NULL && block[0] == 1, "realloc to less");
    free(block);
    unsigned char *zeros = calloc(3, MIB);
    CHECK(zeros != NULL && zeros[0] == 0 && zeros[3 * MIB - 1] == 0, "calloc");
    free(zeros);
}

#endif
