/*
 * 200 forks under load: threads allocate, main and the threads fork in turn. Child and parent go on
 * with their old objects and allocate; the child also forks and starts threads itself.
 */
#include "slots.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FORKS = 200, WORKERS = 4, SLOTS = 300 };

struct worker {
    struct slot slots[SLOTS];
    uint64_t random;
    uint64_t steps;
};

static struct worker workers[WORKERS + 1];
static atomic_int stop;
static atomic_int forks_to_do = FORKS;

static void churn(struct worker *worker, int steps)
{
    for (int i = 0; i < steps; i++) {
        struct slot *slot = &worker->slots[next_random(&worker->random) % SLOTS];
        size_t size = random_size(&worker->random, ++worker->steps % 100 == 0 ? 300000 : 3000);
        slot_replace(slot, size, next_random(&worker->random));
    }
}

static void free_all(struct worker *worker)
{
    slots_free(worker->slots, SLOTS);
}

static void *churn_in_child(void *worker)
{
    churn(worker, 500);
    return worker;
}

static void await(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child %d ended with %#x", child,
          status);
}

/* The child owns the copy of its forker's objects; those of other threads may be half made. */
__attribute__((noreturn)) static void live_as_child(struct worker *worker, int number)
{
    churn(worker, 500);
    if (number % 5 == 1) {
        pthread_t threads[2];
        struct worker *fresh = calloc(2, sizeof(*fresh));
        CHECK(fresh != NULL, "calloc");
        for (size_t i = 0; i < 2; i++)
            CHECK(pthread_create(&threads[i], NULL, churn_in_child, &fresh[i]) == 0,
                  "pthread_create in the child");
        for (size_t i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            free_all(&fresh[i]);
        }
        free(fresh);
    }
    if (number % 5 == 2) {
        pid_t grandchild = fork();
        CHECK(grandchild >= 0, "fork in the child");
        if (grandchild == 0) {
            churn(worker, 200);
            _exit(0);
        }
        await(grandchild);
    }
    free_all(worker);
    if (number % 5 == 3)
        exit(0);
    _exit(0);
}

static int fork_once(struct worker *worker)
{
    int number = atomic_fetch_sub(&forks_to_do, 1);
    if (number <= 0)
        return 0;
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0)
        live_as_child(worker, number);
    churn(worker, 200);
    await(child);
    return 1;
}

/* Worker 0 and 1 fork as well, the others only make sure that locks are held at that moment. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    size_t number = (size_t)(worker - workers);
    worker->random = (uint64_t)number << 32;
    while (!atomic_load(&stop)) {
        churn(worker, 300);
        if (number < 2)
            fork_once(worker);
    }
    free_all(worker);
    return NULL;
}

int main(void)
{
    require_quarry();
    pthread_t threads[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "pthread_create");
    struct worker *own = &workers[WORKERS];
    own->random = (uint64_t)WORKERS << 32;
    do
        churn(own, 300);
    while (fork_once(own));
    atomic_store(&stop, 1);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    free_all(own);
    return 0;
}
