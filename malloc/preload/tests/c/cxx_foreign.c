/*
 * An allocator that stands in front of Quarry with a part of the functions, as TBB's proxy does:
 * it serves from memory of its own and takes back nothing else.
 */
#include "check.h"

static char memory[64 << 20] __attribute__((aligned(64)));
static size_t used;

static void *take(size_t size)
{
    size_t *block = (size_t *)(memory + used);
    used += 64 + (size + 63) / 64 * 64;
    CHECK(used <= sizeof(memory), "the memory of this test is used up");
    block[0] = size;
    return (char *)block + 64;
}

static void give(void *pointer)
{
    char *block = pointer;
    CHECK(block == NULL || (block >= memory && block < memory + sizeof(memory)),
          "%p is not from here", pointer);
}

void *malloc(size_t size) { return take(size); }
void free(void *pointer) { give(pointer); }
void *calloc(size_t count, size_t size) { return take(count * size); }
void *aligned_alloc(size_t align, size_t size) { return align <= 64 ? take(size) : NULL; }

void *realloc(void *pointer, size_t size)
{
    void *resized = take(size);
    if (pointer != NULL) {
        size_t old = ((size_t *)pointer)[-8];
        memcpy(resized, pointer, old < size ? old : size);
        give(pointer);
    }
    return resized;
}

void *_Znwm(size_t size);
void _ZdlPv(void *pointer);
void *_Znwm(size_t size) { return take(size); }
void _ZdlPv(void *pointer) { give(pointer); }
