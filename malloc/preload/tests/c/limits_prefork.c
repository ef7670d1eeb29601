/*
 * usage: limits_prefork WORKERS THREADS BURST_KIB ROUNDS
 * A service that forks its workers under the limit of a control group. Their threads take and free
 * bursts of memory of many sizes, together more than the limit. A request may be refused; the
 * kernel kills no worker, and each thread has whole bursts.
 */
#include "memory.h"

#include <pthread.h>
#include <sys/wait.h>

#define MOST 4096

static size_t burst;
static int rounds;
static unsigned refusals, whole;

static void *serve(void *seed)
{
    uint64_t state = (uint64_t)(uintptr_t)seed * 0x9E3779B97F4A7C15u + 1;
    static __thread unsigned char *all[MOST];
    static const size_t sizes[] = {600, 1500, 4000, 20000, 70000, 300000, 1500000, 3000000};
    for (int round = 0; round < rounds; round++) {
        size_t count = 0, total = 0;
        while (total < burst && count < MOST) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            size_t size = sizes[(state >> 33) % LENGTH(sizes)];
            size = size / 2 + (state >> 40) % size;
            unsigned char *start = malloc(size);
            if (start == NULL)
                break;
            memset(start, 1, size);
            all[count++] = start;
            total += size;
        }
        __atomic_add_fetch(total >= burst ? &whole : &refusals, 1, __ATOMIC_RELAXED);
        while (count > 0)
            free(all[--count]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 5, "usage: %s WORKERS THREADS BURST_KIB ROUNDS", argv[0]);
    require_quarry();
    int workers = atoi(argv[1]), threads = atoi(argv[2]);
    burst = (size_t)atol(argv[3]) * KIB;
    rounds = atoi(argv[4]);
    unsigned char *of_all = malloc(opaque_size(8 * MIB));
    CHECK(of_all != NULL, "the service does not start");
    memset(of_all, 1, 8 * MIB);
    for (int worker = 0; worker < workers; worker++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork");
        if (pid != 0)
            continue;
        pthread_t serving[64];
        for (int i = 0; i < threads; i++) {
            void *seed = (void *)(uintptr_t)(worker * threads + i + 1);
            CHECK(pthread_create(&serving[i], NULL, serve, seed) == 0, "pthread_create");
        }
        for (int i = 0; i < threads; i++)
            CHECK(pthread_join(serving[i], NULL) == 0, "pthread_join");
        printf("%u bursts, %u of them refused\n", whole + refusals, refusals);
        CHECK(whole > 0, "no burst is served");
        exit(0);
    }
    int killed = 0, status;
    while (wait(&status) > 0)
        killed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(killed == 0, "%d of %d workers have failed", killed, workers);
    return 0;
}
