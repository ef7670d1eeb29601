/* A fault that has nothing to do with the heap. */
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    free(malloc(100));
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED, "mmap");
    *(volatile char *)page = 1;
    return 0;
}
