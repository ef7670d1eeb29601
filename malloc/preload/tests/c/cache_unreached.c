/*
 * Destroys a cache of which another CPU holds objects, in a thread that may not stop that CPU.
 * Prints how many objects the call reports as in use, and how many of these are not in use. Prints
 * "reached" if the thread could take back the other CPU's objects after all.
 */
#include "filter.h"

#include <pthread.h>
#include <quarry.h>
#include <sched.h>

enum { USED = 3, FREED = 20 };

static quarry_cache *far;
static pthread_barrier_t step;

static void *park(void *cpu)
{
    CHECK(sched_setaffinity(0, sizeof(cpu_set_t), cpu) == 0, "not that CPU");
    void *objects[FREED];
    for (int i = 0; i < FREED; i++)
        CHECK((objects[i] = quarry_cache_alloc(far, 0)) != NULL, "no object");
    for (int i = 0; i < FREED; i++)
        quarry_cache_free(far, objects[i]);
    pthread_barrier_wait(&step);
    /* Now the other thread destroys the cache. */
    pthread_barrier_wait(&step);
    /* No filter applies to this thread. */
    CHECK(quarry_cache_destroy(far) == 0, "all of them were given back");
    return NULL;
}

/* The number-th CPU that the process may use, or none. */
static int find_cpu(int number, cpu_set_t *found)
{
    cpu_set_t all;
    CHECK(sched_getaffinity(0, sizeof(all), &all) == 0, "no CPUs");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && number-- == 0) {
            CPU_ZERO(found);
            CPU_SET(cpu, found);
            return 1;
        }
    }
    return 0;
}

static void refuse_membarrier(void)
{
    struct filter filter;
    filter_start(&filter);
    filter_answer(&filter, SYS_membarrier, SECCOMP_RET_ERRNO | EPERM);
    filter_step(&filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter_install(&filter, 0);
}

int main(void)
{
    cpu_set_t here, there;
    if (!find_cpu(0, &here) || !find_cpu(1, &there)) {
        puts("reached");
        return 0;
    }
    far = quarry_cache_create("far", 200, 0, NULL, QUARRY_NO_MERGE);
    CHECK(far != NULL && pthread_barrier_init(&step, NULL, 2) == 0, "no cache");
    pthread_t other;
    CHECK(pthread_create(&other, NULL, park, &there) == 0, "no thread");
    CHECK(sched_setaffinity(0, sizeof(here), &here) == 0, "not that CPU");
    pthread_barrier_wait(&step);
    void *used[USED];
    for (int i = 0; i < USED; i++)
        CHECK((used[i] = quarry_cache_alloc(far, 0)) != NULL, "no object");
    refuse_membarrier();
    long said = quarry_cache_destroy(far);
    CHECK(said >= USED, "%d objects are in use, not %ld", USED, said);
    if (said == USED)
        puts("reached");
    else
        printf("%ld %ld\n", said, said - USED);
    for (int i = 0; i < USED; i++)
        quarry_cache_free(far, used[i]);
    pthread_barrier_wait(&step);
    CHECK(pthread_join(other, NULL) == 0, "no end");
    return 0;
}
