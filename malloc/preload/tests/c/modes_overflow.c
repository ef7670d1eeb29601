/*
 * Linear overflows of 1 MiB under QUARRY_HARDEN: from one object of each size, byte after byte, in
 * a process of its own. Each must end by a signal before it has passed 1 MiB.
 * In a heap of kind `locked` all memory is locked; in `old` the kernel is one before Linux 6.13.
 * usage: modes_overflow fresh|aged|thread|fork|trim|locked|old read|write
 */
#include "guards.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { KEPT = 256 };

static void *kept[KEPT];
/* Shared with the children: how far the present one has come. */
static volatile size_t *passed;
static bool writes;

/* Allocates and frees objects and blocks of all sizes; half of the last ones stay. */
static void age(void)
{
    uint64_t state = 7;
    for (size_t i = 0; i < 4 * KEPT; i++) {
        size_t place = next_random(&state) % KEPT;
        free(kept[place]);
        kept[place] = opaque(malloc(random_size(&state, 200 * KIB)));
        CHECK(kept[place] != NULL, "malloc");
    }
    for (size_t i = 0; i < KEPT; i += 2) {
        free(kept[i]);
        kept[i] = NULL;
    }
    check_heap("in an aged heap");
}

static void *overflow(void *size)
{
    char *object = opaque(malloc((size_t)size));
    CHECK(object != NULL, "malloc(%zu)", (size_t)size);
    for (size_t i = 0; i < MIB; i++) {
        volatile char *byte = object + (size_t)size + i;
        if (writes)
            *byte = 'a';
        else
            opaque_size((size_t)*byte);
        *passed = i + 1;
    }
    return NULL;
}

static void in_thread(void *(*work)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, argument) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
}

static void child(const char *heap, size_t size)
{
    if (strcmp(heap, "old") == 0)
        refuse_guards(0);
    if (strcmp(heap, "locked") == 0)
        CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall");
    if (strcmp(heap, "aged") == 0 || strcmp(heap, "trim") == 0)
        age();
    if (strcmp(heap, "trim") == 0)
        malloc_trim(0);
    if (strcmp(heap, "thread") == 0)
        in_thread(overflow, (void *)size);
    else
        overflow((void *)size);
    _exit(0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: %s HEAP read|write", argv[0]);
    require_quarry();
    writes = strcmp(argv[2], "write") == 0;
    void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "mmap");
    passed = shared;
    if (strcmp(argv[1], "fork") == 0)
        age();
    for (size_t size = 1; size < 127 * KIB; size += size / 5 + 8) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork");
        if (pid == 0)
            child(argv[1], size);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
        CHECK(WIFSIGNALED(status), "%zu bytes: status %#x after %zu bytes", size, status, *passed);
        printf("%zu %zu\n", size, *passed);
    }
    return 0;
}
