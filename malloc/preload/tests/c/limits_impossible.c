/*
 * usage: limits_impossible calls|machine
 * Requests that cannot be served. `calls`: the test counts the system calls of a hundred requests
 * of each size, between two calls of getppid. `machine`: Quarry refuses requests larger than memory
 * and swap together exactly where the kernel refuses them to the C library. Exits with 77 and a
 * reason if vm.overcommit_memory is 2, or changes.
 */
#include "memory.h"

#include <sys/sysinfo.h>

static void refuse(size_t size)
{
    errno = 0;
    CHECK(malloc(opaque_size(size)) == NULL && errno == ENOMEM, "malloc(%#zx)", size);
}

static void calls(void)
{
    static const size_t sizes[] = {(size_t)1 << 44, (size_t)1 << 46,  (size_t)1 << 47,
                                   (size_t)1 << 62, SIZE_MAX / 2,     SIZE_MAX / 2 + 1,
                                   SIZE_MAX - 4096, SIZE_MAX};
    refuse(SIZE_MAX / 2);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        getppid();
        for (int round = 0; round < 100; round++)
            refuse(sizes[i]);
        getppid();
    }
    getppid();
    for (int round = 0; round < 100; round++) {
        errno = 0;
        void *object = calloc(opaque_size((size_t)1 << 33), opaque_size((size_t)1 << 33));
        CHECK(object == NULL && errno == ENOMEM, "calloc that overflows");
    }
    getppid();
}

static int mode(void)
{
    return (int)field_of("/proc/sys/vm/overcommit_memory", "");
}

static void *libc_malloc(size_t size)
{
    void *(*libc)(size_t) = (void *(*)(size_t))libc_function("malloc");
    return libc(size);
}

static void libc_free(void *object)
{
    ((void (*)(void *))libc_function("free"))(object);
}

static int machine(void)
{
    struct sysinfo info;
    CHECK(sysinfo(&info) == 0, "sysinfo");
    size_t whole = (info.totalram + info.totalswap) * info.mem_unit;
    int before = mode();
    unsigned char *object = malloc(2 * MIB);
    CHECK(object != NULL, "2 MiB");
    memset(object, 7, 2 * MIB);
    static const size_t parts[] = {101, 200, 400};
    for (size_t i = 0; i < LENGTH(parts); i++) {
        size_t size = whole / 100 * parts[i];
        /* In this mode only the address space bounds a request, and 128 TiB exceed it. */
        if (before == 1 && size > 128 * KIB * MIB)
            break;
        errno = 0;
        void *ours = malloc(size), *zeroed = calloc(size / 16, 16), *aligned = NULL;
        CHECK(posix_memalign(&aligned, 64, size) == (aligned == NULL ? ENOMEM : 0), "memalign");
        unsigned char *moved = realloc(object, size);
        if (moved != NULL)
            object = moved;
        void *theirs = libc_malloc(size);
        if (mode() != before || before == 2) {
            printf("vm.overcommit_memory is %d, then %d\n", before, mode());
            return 77;
        }
        int count = (ours != NULL) + (zeroed != NULL) + (aligned != NULL) + (moved != NULL);
        CHECK(count == (theirs == NULL ? 0 : 4), "%zu bytes: %d of 4 are served, libc's %p", size,
              count, theirs);
        CHECK(object[0] == 7 && object[2 * MIB - 1] == 7, "realloc has changed what it refused");
        free(ours);
        free(zeroed);
        free(aligned);
        libc_free(theirs);
        object = realloc(object, 2 * MIB);
        CHECK(object != NULL, "what shrinks has room");
    }
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: %s calls|machine", argv[0]);
    require_quarry();
    if (strcmp(argv[1], "machine") == 0)
        return machine();
    calls();
    return 0;
}
