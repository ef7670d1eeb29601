/* The relatives of malloc that a tool in front does not define reach its malloc and free. */
#include "check.h"

void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);
void cfree(void *);
#pragma weak free_sized
#pragma weak free_aligned_sized
#pragma weak cfree

int main(void)
{
    CHECK(free_sized && free_aligned_sized && cfree, "Quarry is not loaded");
    for (size_t size = 10; size < 3 * MIB; size = size * 2 + 3) {
        char *block = malloc(size);
        memset(block, 3, size);
        block = reallocarray(block, 2, size);
        CHECK(block != NULL && block[0] == 3 && block[size - 1] == 3, "reallocarray");
        free_sized(block, 2 * size);
        cfree(malloc(size));
        free_aligned_sized(aligned_alloc(64, size / 64 * 64 + 64), 64, size / 64 * 64 + 64);
    }
    return 0;
}
