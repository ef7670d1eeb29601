/*
 * One misuse per run. Says on standard output which pointer it will misuse and how many bytes the
 * object has, then does it; the allocator is expected to end the process.
 * usage: misuse free|realloc|malloc_usable_size KIND [SIZE [OFFSET]]
 */
#include "check.h"

#include <sys/mman.h>

static char in_the_program[4096];

struct target {
    char *pointer;
    size_t usable;
};

/* An object of `size` bytes from quarry that lives until the end. */
static struct target object(size_t size)
{
    struct target target = {opaque(malloc(size)), 0};
    CHECK(target.pointer != NULL, "malloc(%zu)", size);
    target.usable = malloc_usable_size(target.pointer);
    return target;
}

static struct target freed(size_t size)
{
    struct target target = object(size);
    free(target.pointer);
    return target;
}

/* A second object keeps the page from going back as a whole. */
static struct target freed_beside_another(size_t size)
{
    struct target kept = object(size);
    opaque(kept.pointer);
    return freed(size);
}

static struct target inside(size_t size, size_t offset)
{
    struct target target = object(size);
    target.pointer += offset;
    return target;
}

static struct target from_mmap(void)
{
    void *page = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED, "mmap");
    return (struct target){(char *)page + PAGE, 0};
}

static struct target from_libc(size_t size)
{
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))libc_function("malloc");
    CHECK(libc_malloc != NULL, "the C library has no malloc");
    return (struct target){libc_malloc(size), 0};
}

static struct target find(const char *kind, size_t size, size_t offset, char *on_stack)
{
    if (strcmp(kind, "freed") == 0)
        return freed(size);
    if (strcmp(kind, "freed-beside-another") == 0)
        return freed_beside_another(size);
    if (strcmp(kind, "inside") == 0)
        return inside(size, offset);
    if (strcmp(kind, "stack") == 0)
        return (struct target){on_stack, 0};
    if (strcmp(kind, "static") == 0)
        return (struct target){in_the_program + 64, 0};
    if (strcmp(kind, "mmap") == 0)
        return from_mmap();
    if (strcmp(kind, "libc") == 0)
        return from_libc(size);
    if (strcmp(kind, "address") == 0)
        return (struct target){(char *)size, 0};
    CHECK(0, "unknown kind %s", kind);
}

int main(int argc, char **argv)
{
    char on_stack[256];
    CHECK(argc >= 3, "usage: %s ENTRY KIND [SIZE [OFFSET]]", argv[0]);
    require_quarry();
    size_t size = argc > 3 ? strtoul(argv[3], NULL, 0) : 64;
    size_t offset = argc > 4 ? strtoul(argv[4], NULL, 0) : 0;
    struct target target = find(argv[2], size, offset, on_stack + 64);
    char line[128];
    int length = snprintf(line, sizeof(line), "%p %zu\n", (void *)target.pointer, target.usable);
    CHECK(write(1, line, (size_t)length) == length, "standard output is closed");
    void *bad = opaque(target.pointer);
    if (strcmp(argv[1], "free") == 0)
        free(bad);
    else if (strcmp(argv[1], "realloc") == 0)
        opaque(realloc(bad, 5000));
    else if (strcmp(argv[1], "malloc_usable_size") == 0)
        dprintf(1, "usable %zu\n", malloc_usable_size(bad));
    else
        CHECK(0, "unknown entry %s", argv[1]);
    dprintf(1, "survived\n");
    return 0;
}
