/*
 * The threads fork 1,000 times in all while they allocate, one thread calls malloc_trim in a loop,
 * and the reclaim thread runs. Each child allocates, frees and ends within its deadline.
 */
#include "deadline.h"
#include "slots.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { FORKS = 1000, WORKERS = 4, SLOTS = 100, BLOCKS = 40 };

struct worker {
    struct slot slots[SLOTS];
    uint64_t random;
};

static struct worker workers[WORKERS];
static atomic_int stop;
static atomic_int forks_to_do = FORKS;

static void churn(struct worker *worker, int steps)
{
    for (int i = 0; i < steps; i++) {
        uint64_t draw = next_random(&worker->random);
        struct slot *slot = &worker->slots[draw % SLOTS];
        size_t size = random_size(&worker->random, draw >> 32 & 63 ? 3000 : 2 * MIB);
        slot_replace(slot, size, draw);
    }
}

static void free_all(struct worker *worker)
{
    slots_free(worker->slots, SLOTS);
}

/* Frees enough for the reclaim thread to start. */
static void give_work_to_reclaim(void)
{
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(MIB);
        CHECK(blocks[i] != NULL, "malloc(%zu)", MIB);
        memset(blocks[i], 1, MIB);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

__attribute__((noreturn)) static void live_as_child(struct worker *worker, int number)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    deadline(30, "the child of a fork allocates");
    churn(worker, 50);
    if (number % 4 == 0)
        malloc_trim(0);
    if (number % 50 == 1)
        give_work_to_reclaim();
    deadline(30, "the child of a fork frees");
    free_all(worker);
    deadline(30, "the child of a fork exits");
    if (number % 4 == 1)
        exit(0);
    _exit(0);
}

static void *allocate_and_fork(void *argument)
{
    struct worker *worker = argument;
    worker->random = (uint64_t)(worker - workers) << 32;
    for (;;) {
        churn(worker, 30);
        int number = atomic_fetch_sub(&forks_to_do, 1);
        if (number <= 0)
            break;
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0)
            live_as_child(worker, number);
        churn(worker, 30);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child, "waitpid");
        CHECK(status == 0, "child %d ended with %#x", number, status);
    }
    free_all(worker);
    return NULL;
}

static void *trim(void *unused)
{
    while (!atomic_load(&stop))
        malloc_trim(0);
    return unused;
}

static void *purge(void *unused)
{
    while (!atomic_load(&stop)) {
        int forks = atomic_load(&forks_to_do);
        give_work_to_reclaim();
        while (atomic_load(&forks_to_do) > forks - 50 && !atomic_load(&stop))
            free(malloc(MIB));
    }
    return unused;
}

int main(void)
{
    require_quarry();
    deadline(80, "a thread of the parent");
    pthread_t threads[WORKERS + 2];
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_and_fork, &workers[i]) == 0, "thread");
    CHECK(pthread_create(&threads[WORKERS], NULL, trim, NULL) == 0, "thread");
    CHECK(pthread_create(&threads[WORKERS + 1], NULL, purge, NULL) == 0, "thread");
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, 1);
    pthread_join(threads[WORKERS], NULL);
    pthread_join(threads[WORKERS + 1], NULL);
    return 0;
}
