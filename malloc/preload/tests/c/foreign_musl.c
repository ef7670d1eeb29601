/*
 * The demands of musl's libc-test on malloc, written anew: malloc(0) gives objects of their own, a
 * program whose break cannot grow and whose address space is nearly full still gets small objects,
 * and one that asks for all memory gets ENOMEM and goes on.
 */
#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { OBJECTS = 300 };
#define GIB (1024 * MIB)

static void objects_of_no_bytes_are_distinct(void)
{
    static void *objects[OBJECTS];
    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i] = i % 2 == 0 ? malloc(opaque_size(0)) : calloc(opaque_size(0), 8);
        CHECK(objects[i] != NULL, "malloc(0)");
        for (size_t k = 0; k < i; k++)
            CHECK(objects[k] != objects[i], "malloc(0) gave %p twice", objects[i]);
    }
    for (size_t i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

/* Takes the address space after the break, and all but `left` bytes of the rest. */
static void fill_address_space(size_t left)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
    void *behind = sbrk(0);
    mmap(behind, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    for (size_t size = GIB; size >= PAGE; size /= 2)
        while (mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            continue;
    limit.rlim_cur += left;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

static size_t limit_address_space(size_t more)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1, "statm");
    fclose(file);
    struct rlimit limit = {.rlim_cur = pages * PAGE + more, .rlim_max = RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    return limit.rlim_cur;
}

static void little_is_served_where_the_break_is_stuck(void)
{
    limit_address_space(64 * MIB);
    fill_address_space(8 * MIB);
    void *last = NULL;
    for (size_t size = 16; size <= 64 * 1024; size *= 2) {
        void *object = malloc(opaque_size(size));
        CHECK(object != NULL, "malloc(%zu) beside a full address space", size);
        memset(object, 1, size);
        free(last);
        last = object;
    }
    free(last);
}

static void everything_is_refused_in_order(void)
{
    static void *objects[100000];
    limit_address_space(128 * MIB);
    for (size_t size = 100; size <= MIB; size *= 10) {
        size_t count = 0;
        errno = 0;
        while (count < LENGTH(objects) && (objects[count] = malloc(opaque_size(size))) != NULL)
            memset(objects[count++], 7, size);
        CHECK(size < 10000 || (count < LENGTH(objects) && errno == ENOMEM),
              "%zu objects of %zu bytes, errno %d", count, size, errno);
        CHECK(count * size > 16 * MIB || count == LENGTH(objects), "only %zu of %zu bytes", count,
              size);
        while (count > 0)
            free(objects[--count]);
        void *again = malloc(opaque_size(size));
        CHECK(again != NULL, "malloc(%zu) after everything was freed", size);
        free(again);
    }
}

int main(int count, char **arguments)
{
    require_quarry();
    if (count == 2 && strcmp(arguments[1], "stuck") == 0)
        little_is_served_where_the_break_is_stuck();
    else if (count == 2 && strcmp(arguments[1], "everything") == 0)
        everything_is_refused_in_order();
    else
        objects_of_no_bytes_are_distinct();
    return 0;
}
