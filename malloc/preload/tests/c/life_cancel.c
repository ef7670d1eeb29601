/*
 * Threads with a cancellation pending allocate and free. No such call may be a cancellation point:
 * the thread would end while the allocator holds a lock. The threads end at their call of
 * pthread_testcancel. Quarry's own output is no cancellation point either: malloc_stats is written
 * whole, and a double free ends the process.
 */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 10, THREADS = 24, STEPS = 1500 };

static atomic_int survived;

static void work(uint64_t number)
{
    enum { SLOTS = 64 };
    void *slots[SLOTS] = {NULL};
    uint64_t random = number << 32;
    for (int step = 0; step < STEPS; step++) {
        void **slot = &slots[next_random(&random) % SLOTS];
        size_t size = random_size(&random, step % 100 == 0 ? MIB : 3000);
        switch (step % 8) {
        case 0:
            *slot = realloc(*slot, size);
            break;
        case 1:
            free(*slot);
            *slot = calloc(1, size);
            break;
        case 2:
            free(*slot);
            *slot = aligned_alloc(64, size);
            break;
        default:
            free(*slot);
            *slot = malloc(size);
        }
        CHECK(*slot != NULL, "no memory for %zu bytes", size);
        memset(*slot, 1, size);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
    malloc_trim(0);
}

static void *cancelled(void *number)
{
    CHECK(pthread_cancel(pthread_self()) == 0, "pthread_cancel");
    work((uint64_t)(uintptr_t)number);
    atomic_fetch_add(&survived, 1);
    pthread_testcancel();
    CHECK(0, "the cancellation was lost");
}

/* Standard error goes to `end` from here on. */
static void hear(int end)
{
    CHECK(end >= 0 && dup2(end, 2) == 2, "cannot hear standard error");
    close(end);
}

static void statistics_are_written(void)
{
    int pipes[2], status;
    CHECK(pipe(pipes) == 0, "pipe");
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        close(pipes[0]);
        hear(pipes[1]);
        pthread_cancel(pthread_self());
        malloc_stats();
        _exit(7);
    }
    close(pipes[1]);
    char text[4096];
    size_t length = 0;
    for (ssize_t got; (got = read(pipes[0], text, sizeof(text))) > 0; length += (size_t)got)
        continue;
    close(pipes[0]);
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "malloc_stats was a cancellation point");
    CHECK(length > 100, "malloc_stats wrote %zu bytes", length);
}

static void a_double_free_ends_the_process(void)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        hear(open("/dev/null", O_WRONLY));
        pthread_cancel(pthread_self());
        void *object = malloc(100);
        free(opaque(object));
        free(opaque(object));
        _exit(7);
    }
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
          "the thread was cancelled where the process was to end: status %d", status);
}

int main(void)
{
    require_quarry();
    statistics_are_written();
    a_double_free_ends_the_process();
    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            void *number = (void *)(round * THREADS + i);
            CHECK(pthread_create(&threads[i], NULL, cancelled, number) == 0, "pthread_create");
        }
        for (size_t i = 0; i < THREADS; i++) {
            void *result = NULL;
            CHECK(pthread_join(threads[i], &result) == 0, "pthread_join");
            CHECK(result == PTHREAD_CANCELED, "a thread ended with %p", result);
        }
        CHECK(survived == (int)((round + 1) * THREADS), "%d of %zu threads came to their end",
              survived, (round + 1) * THREADS);
    }
    return 0;
}
