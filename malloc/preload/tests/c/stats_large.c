/* Eighty requests of each kind above the largest object, each freed before the next. */
#include "check.h"

#include <malloc.h>
#include <stdlib.h>

static void of_size(size_t size) {
    for (int i = 0; i < 20; i++) {
        void *aligned = NULL;
        void *blocks[] = {malloc(size), calloc(1, size), realloc(NULL, size), NULL};
        CHECK(posix_memalign(&aligned, 4096, size) == 0, "%zu", size);
        blocks[3] = aligned;
        for (int j = 0; j < 4; j++) {
            CHECK(blocks[j] != NULL, "%zu", size);
            *(volatile char *)blocks[j] = 1;
            free(blocks[j]);
        }
    }
}

int main(void) {
    of_size(100 << 10);
    of_size(20 << 20);
    return 0;
}
