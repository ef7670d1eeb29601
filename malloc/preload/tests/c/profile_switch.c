/* The heap profile switched on and off while everything is under way. */
#include "check.h"
#include "deadline.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 3, ROUNDS = 1000, HELD = 64 };

int quarry_profile_start(size_t mean_bytes) __attribute__((weak));
void quarry_profile_stop(void) __attribute__((weak));
int quarry_profile_write(int fd) __attribute__((weak));

static atomic_int stop;
static const char *path;

/* One object after the other, in every way to get one. */
static void *churn(void *number)
{
    uint64_t random = (uintptr_t)number;
    void *held[HELD] = {0};
    size_t sizes[HELD] = {0};
    while (!atomic_load(&stop)) {
        size_t at = next_random(&random) % HELD;
        size_t size = random_size(&random, next_random(&random) % 50 ? 5000 : 3 * MIB);
        if (held[at] != NULL)
            CHECK_PATTERN(held[at], sizes[at], (uintptr_t)held[at]);
        switch (next_random(&random) % 4) {
        case 0:
            free(held[at]);
            held[at] = malloc(size);
            break;
        case 1:
            free(held[at]);
            held[at] = calloc(1, size);
            CHECK(held[at] != NULL && ((char *)held[at])[size - 1] == 0, "calloc(%zu)", size);
            break;
        case 2:
            free(held[at]);
            held[at] = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
            CHECK((uintptr_t)held[at] % 4096 == 0, "%p", held[at]);
            break;
        default: {
            size_t kept = size < sizes[at] ? size : sizes[at];
            uintptr_t seed = (uintptr_t)held[at];
            held[at] = realloc(held[at], size);
            CHECK(held[at] != NULL, "realloc to %zu", size);
            CHECK_PATTERN(held[at], kept, seed);
        }
        }
        CHECK(held[at] != NULL, "no %zu bytes", size);
        CHECK(malloc_usable_size(held[at]) >= size, "of %zu", size);
        sizes[at] = size;
        pattern_fill(held[at], size, (uintptr_t)held[at]);
    }
    for (size_t at = 0; at < HELD; at++)
        free(held[at]);
    return NULL;
}

static void *open_and_close(void *unused)
{
    while (!atomic_load(&stop)) {
        void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(plugin != NULL, "dlopen: %s", dlerror());
        dlclose(plugin);
    }
    return unused;
}

static atomic_int interrupted;

static void handler(int number)
{
    (void)number;
    atomic_fetch_add(&interrupted, 1);
}

static void fork_one(int round)
{
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        for (size_t size = 1; size < 100000; size *= 3)
            free(opaque(malloc(size)));
        CHECK(quarry_profile_start(64) == 0, "a profile of the child's own");
        void *object = opaque(malloc(1000));
        quarry_profile_stop();
        free(object);
        int file = open("/dev/null", O_WRONLY);
        CHECK(quarry_profile_write(file) == 0, "writing it");
        _exit(round % 100);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == round % 100, "status %#x", status);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: profile_switch PLUGIN");
    path = argv[1];
    require_quarry();
    deadline(80, "switching");
    CHECK(quarry_profile_write(1) == -1 && errno == ENODATA, "there never was one");
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t threads[THREADS + 1];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0, "thread");
    CHECK(pthread_create(&threads[THREADS], NULL, open_and_close, NULL) == 0, "thread");
    int started = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (quarry_profile_start(round % 2 ? 64 : 4096) == 0) {
            started++;
            CHECK(quarry_profile_start(1) == -1 && errno == EALREADY, "it is on");
        } else {
            CHECK(errno == EBUSY, "why not?");
        }
        pthread_kill(threads[round % THREADS], SIGUSR1);
        free(opaque(malloc((size_t)round + 1)));
        if (round % 100 == 7)
            fork_one(round);
        quarry_profile_stop();
    }
    CHECK(started > 0, "never on");
    atomic_store(&stop, 1);
    for (size_t i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    int file = open("/dev/null", O_WRONLY);
    CHECK(quarry_profile_write(file) == 0, "writing it");
    check_heap("after switching");
    return 0;
}
