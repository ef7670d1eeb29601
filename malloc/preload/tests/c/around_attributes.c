/*
 * usage: around_attributes dontfork|wipeonfork|readonly MIB
 * A library leaves an attribute on the pages of a block that it frees, as libraries for RDMA do.
 * The next owner of these pages can write them, and use them in a child. Then the same again with a
 * block of the same size, which glibc maps for itself only from 32 MiB on.
 */
#include "check.h"

#include <sys/mman.h>
#include <sys/wait.h>

static void free_with(const char *what, size_t size)
{
    char *block = NULL;
    CHECK(posix_memalign((void **)&block, PAGE, size) == 0, "posix_memalign");
    memset(block, 1, size);
    if (strcmp(what, "readonly") == 0)
        CHECK(mprotect(block, size, PROT_READ) == 0, "mprotect");
    else
        CHECK(madvise(block, size, *what == 'd' ? MADV_DONTFORK : MADV_WIPEONFORK) == 0, "madvise");
    free(block);
}

static void use_in_child(size_t size)
{
    unsigned char *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL, "malloc(%zu)", size);
        memset(blocks[i], i + 2, size);
    }
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        for (int i = 0; i < 4; i++)
            for (size_t at = 0; at < size; at += 512)
                if (blocks[i][at] != i + 2)
                    _exit(3);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(status == 0, "the child ends with status %#x", (unsigned)status);
    for (int i = 0; i < 4; i++)
        free(blocks[i]);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: %s WHAT MIB", argv[0]);
    require_quarry();
    size_t size = (size_t)atol(argv[2]) * MIB;
    free_with(argv[1], size);
    use_in_child(size / 2);
    if (size >= 32 * MIB) {
        free_with(argv[1], size);
        use_in_child(size / 4 * 3);
    }
    return 0;
}
