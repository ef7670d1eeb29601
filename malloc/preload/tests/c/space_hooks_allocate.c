/*
 * A program replaces `mmap`, `munmap`, `madvise` and `mprotect` of libc by functions that allocate
 * and free themselves, and lock as code of a program may: loggers and caches of registered memory
 * do. glibc's malloc calls none of these by name.
 */
#include "deadline.h"
#include "system_call.h"

#include <pthread.h>
#include <sys/mman.h>

enum { SMALL = 100 * 1000, LARGE = 60, KEPT = 100 * 1000, ROUNDS = 3 };

static pthread_mutex_t held;
static char *kept[KEPT];
static long kept_count, told;
static _Thread_local int is_inside;

/* Each function begins with this. */
static void note(void)
{
    if (is_inside)
        return;
    is_inside = 1;
    CHECK(pthread_mutex_lock(&held) == 0, "the C library does not know this thread");
    told++;
    for (long i = 0; i < 40; i++) {
        size_t size = 40 + (size_t)(told * 37 + i * 13) % 3000;
        char *object = opaque(i % 2 == 0 ? malloc(size) : calloc(1, size));
        CHECK(object != NULL, "%zu bytes inside", size);
        memset(object, 1, size);
        if (i % 3 == 0 && kept_count < KEPT)
            kept[kept_count++] = object;
        else
            free(object);
    }
    for (int i = 0; i < 30 && told % 2 == 0 && kept_count > 0; i++)
        free(kept[--kept_count]);
    pthread_mutex_unlock(&held);
    is_inside = 0;
}

void *mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset)
{
    note();
    return (void *)system_call(SYS_mmap, (long)address, (long)bytes, access, flags, file, offset);
}

int munmap(void *address, size_t bytes)
{
    note();
    return (int)system_call(SYS_munmap, (long)address, (long)bytes, 0, 0, 0, 0);
}

int madvise(void *address, size_t bytes, int advice)
{
    note();
    return (int)system_call(SYS_madvise, (long)address, (long)bytes, advice, 0, 0, 0);
}

int mprotect(void *address, size_t bytes, int access)
{
    note();
    return (int)system_call(SYS_mprotect, (long)address, (long)bytes, access, 0, 0, 0);
}

static void *work(void *unused)
{
    char **small = calloc(SMALL, sizeof(*small)), *large[LARGE];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SMALL; i++) {
            small[i] = malloc(16 + (size_t)i * 7919 % 2000);
            small[i][0] = 1;
        }
        for (size_t i = 0; i < LARGE; i++) {
            size_t bytes = MIB + i * 16 * KIB;
            large[i] = realloc(memset(opaque(malloc(bytes)), 1, bytes), bytes + 2 * MIB);
            CHECK(large[i] != NULL && large[i][bytes - 1] == 1, "%zu bytes", bytes);
            if (i % 2 == 0)
                free(large[i]);
        }
        for (size_t i = 1; i < LARGE; i += 2)
            free(large[i]);
        /* Few objects stay, so that slabs give pages back. */
        for (int i = 0; i < SMALL; i++)
            if (i % 1000 != round)
                free(small[i]);
        malloc_trim(0);
    }
    free(small);
    return unused;
}

int main(int count, char **arguments)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    is_inside = 1;
    pthread_mutex_init(&held, &kind);
    is_inside = 0;
    require_quarry();
    deadline(80, "functions that allocate");
    CHECK(count == 2, "usage: space_hooks_allocate THREADS");
    if (strcmp(arguments[1], "one") == 0) {
        work(NULL);
    } else {
        pthread_t threads[3];
        for (size_t i = 0; i < LENGTH(threads); i++)
            CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "thread %zu", i);
        for (size_t i = 0; i < LENGTH(threads); i++)
            pthread_join(threads[i], NULL);
    }
    /* Memory goes back while the program is idle. */
    struct timespec idle = {.tv_sec = 2};
    nanosleep(&idle, NULL);
    check_heap("at the end");
    CHECK(told > 0, "nobody was told");
    return 0;
}
