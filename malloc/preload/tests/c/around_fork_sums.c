/*
 * In a child of fork all counts add up, although threads of the parent were at work: they allocate
 * and free objects of every size, one calls malloc_trim, and the reclaim thread runs.
 */
#include "deadline.h"
#include "slots.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FORKS = 40, WORKERS = 4, SLOTS = 40 };

static atomic_int stop;

static void churn(struct slot *slots, uint64_t *random, int steps)
{
    for (int i = 0; i < steps; i++) {
        uint64_t draw = next_random(random);
        size_t most = draw & 1 ? 3000 : draw & 62 ? 100 * KIB : 3 * MIB;
        slot_replace(&slots[(draw >> 8) % SLOTS], random_size(random, most), draw);
    }
}

static void *work(void *argument)
{
    static struct slot slots[WORKERS][SLOTS];
    size_t number = (size_t)argument;
    uint64_t random = number << 32;
    while (!atomic_load(&stop)) {
        churn(slots[number], &random, 50);
        /* So many objects at once that slabs come and go. */
        if (number == 0)
            slots_free(slots[number], SLOTS);
    }
    slots_free(slots[number], SLOTS);
    return NULL;
}

static void *trim(void *unused)
{
    while (!atomic_load(&stop))
        malloc_trim(0);
    return unused;
}

int main(void)
{
    deadline(80, "a program forks");
    require_quarry();
    pthread_t threads[WORKERS + 1];
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "thread");
    CHECK(pthread_create(&threads[WORKERS], NULL, trim, NULL) == 0, "thread");
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            static struct slot slots[SLOTS];
            uint64_t random = (uint64_t)i;
            deadline(30, "a child allocates");
            check_heap("in a child that has done nothing");
            churn(slots, &random, 50);
            slots_free(slots, SLOTS);
            if (i % 8 == 0)
                check_heap("in a child that has allocated");
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child, "waitpid");
        CHECK(status == 0, "child %d ended with %#x", i, status);
    }
    atomic_store(&stop, 1);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    check_heap("in the parent");
    return 0;
}
