/*
 * The process ends while its threads allocate, free, give memory back and fork, in every way that a
 * process can end.
 */
#include "deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { ROUNDS = 60, THREADS = 4 };

static atomic_int running;

__attribute__((noreturn)) static void *allocate(void *number)
{
    uint64_t random = (uint64_t)(uintptr_t)number;
    void *slots[64] = {NULL};
    atomic_fetch_add(&running, 1);
    for (uint64_t step = 1;; step++) {
        void **slot = &slots[next_random(&random) % LENGTH(slots)];
        free(*slot);
        *slot = malloc(random_size(&random, step % 100 == 0 ? 3 * MIB : 3000));
        if (number == NULL && step % 200 == 0)
            malloc_trim(0);
    }
}

static void allocate_at_exit(void)
{
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++)
        free(malloc(EDGE_SIZES[i]));
}

static void end(int round)
{
    deadline(20, "the end of a process with threads");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atexit(allocate_at_exit);
    at_quick_exit(allocate_at_exit);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, allocate, (void *)i) == 0, "pthread_create");
    }
    while (atomic_load(&running) < THREADS / 2)
        free(malloc((size_t)round * 1000));
    switch (round % 4) {
    case 0:
        exit(0);
    case 1:
        quick_exit(0);
    case 2:
        _exit(0);
    }
}

int main(void)
{
    require_quarry();
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            end(round);
            return 0;
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "round %d: %#x", round, status);
    }
    return 0;
}
