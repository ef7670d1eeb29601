/*
 * Requests of 0 bytes under QUARRY_HARDEN: each gets an address of its own, also where there are
 * more than Quarry keeps addresses for; they are resized and freed by several threads, and by the
 * child of a fork.
 */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>

enum { MANY = 100000 };

static char *all[MANY];

static int compare(const void *one, const void *other)
{
    const char *const *a = one, *const *b = other;
    return (*a > *b) - (*a < *b);
}

static void *free_odd(void *unused)
{
    for (size_t i = 1; i < MANY; i += 2)
        free(all[i]);
    return unused;
}

int main(void)
{
    require_quarry();
    for (size_t i = 0; i < MANY; i++) {
        all[i] = i % 3 == 0 ? malloc(0) : i % 3 == 1 ? calloc(0, 8) : aligned_alloc(16, 0);
        CHECK(all[i] != NULL && (uintptr_t)all[i] % 16 == 0, "object %zu: %p", i, (void *)all[i]);
        CHECK(malloc_usable_size(all[i]) == 0, "object %zu", i);
    }
    qsort(all, MANY, sizeof(all[0]), compare);
    for (size_t i = 1; i < MANY; i++)
        CHECK(all[i] > all[i - 1], "%p twice", (void *)all[i]);
    void *aligned = aligned_alloc(4096, 0);
    CHECK(aligned != NULL && (uintptr_t)aligned % 4096 == 0, "%p", aligned);
    free(aligned);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_odd, NULL) == 0, "pthread_create");
    for (size_t i = 0; i < MANY; i += 2) {
        char *grown = realloc(all[i], 100);
        CHECK(grown != NULL, "realloc");
        memset(grown, 1, 100);
        free(grown);
    }
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    if (child == 0)
        return 0;
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", status);
    return 0;
}
