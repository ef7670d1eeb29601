/*
 * Handlers of fork allocate: some registered before any code of the program or its libraries runs,
 * some later. The process has one thread, or several that allocate during the fork.
 */
#include "deadline.h"
#include "slots.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FORKS = 100, THREADS = 3, SLOTS = 40 };

static struct slot of_handlers[3][SLOTS];
static uint64_t draws;
static int calls[3];
static atomic_int stop;

/* Allocates and frees objects of every kind. */
static void churn(struct slot *slots, uint64_t *random, int steps)
{
    for (int i = 0; i < steps; i++) {
        uint64_t draw = next_random(random);
        slot_replace(&slots[draw % SLOTS], random_size(random, draw & 7 ? 3000 : 2 * MIB), draw);
    }
}

static void allocate_in_handler(int which)
{
    calls[which]++;
    churn(of_handlers[which], &draws, 20);
}

static void before(void)
{
    allocate_in_handler(0);
}

static void in_parent(void)
{
    allocate_in_handler(1);
}

static void in_child(void)
{
    allocate_in_handler(2);
}

static void register_early(int argc, char **argv, char **environment)
{
    (void)argc, (void)argv, (void)environment;
    pthread_atfork(before, in_parent, in_child);
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(int, char **, char **)
    = register_early;

static void *work(void *argument)
{
    static struct slot slots[THREADS][SLOTS];
    size_t number = (size_t)argument;
    uint64_t random = number << 32;
    while (!atomic_load(&stop))
        churn(slots[number], &random, 20);
    slots_free(slots[number], SLOTS);
    return NULL;
}

static void fork_often(int threads)
{
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            deadline(30, "a child allocates");
            CHECK(calls[2] == 2, "%d handlers ran in the child", calls[2]);
            churn(of_handlers[0], &draws, 20);
            if (i % 20 == 0)
                check_heap("in a child");
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child, "waitpid");
        CHECK(status == 0, "a child ended with %#x beside %d threads", status, threads);
    }
}

int main(void)
{
    deadline(80, "a program forks");
    require_quarry();
    register_early(0, NULL, NULL);
    fork_often(0);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "thread");
    fork_often(THREADS);
    atomic_store(&stop, 1);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(calls[0] == 4 * FORKS && calls[1] == 4 * FORKS, "%d and %d handlers ran", calls[0],
          calls[1]);
    for (size_t i = 0; i < LENGTH(of_handlers); i++)
        slots_free(of_handlers[i], SLOTS);
    check_heap("in the parent");
    return 0;
}
