/*
 * Storms of signals while every thread allocates: an interval timer on the process and one timer on
 * each thread. Handlers do not allocate; they disturb registers, the stack and errno.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { SIGNALS_WANTED = 4000, SLOTS = 200, PERIOD_NS = 70000 };

static _Thread_local volatile sig_atomic_t signals;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    volatile unsigned char stack[1024];
    for (size_t i = 0; i < sizeof(stack); i += 64)
        stack[i] = (unsigned char)i;
    signals++;
}

static void start_timer(timer_t *timer, int nanoseconds)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, timer) == 0, "timer_create");
    struct itimerspec interval = {{0, nanoseconds}, {0, nanoseconds}};
    CHECK(timer_settime(*timer, 0, &interval, NULL) == 0, "timer_settime");
}

struct slot {
    void *object;
    size_t size;
    uint64_t seed;
};

static void step(struct slot *slot, uint64_t *random, uint64_t seed)
{
    size_t size = random_size(random, seed % 200 == 0 ? MIB : 1500);
    if (slot->object != NULL)
        CHECK_PATTERN(slot->object, slot->size, slot->seed);
    if (seed % 8 == 0) {
        slot->object = realloc(slot->object, size);
    } else {
        free(slot->object);
        slot->object = seed % 8 == 1 ? calloc(1, size) : malloc(size);
    }
    CHECK(slot->object != NULL, "allocation of %zu", size);
    slot->size = size;
    slot->seed = seed;
    pattern_fill(slot->object, size, seed);
}

static void *allocate_in_the_storm(void *number)
{
    struct slot *slots = calloc(SLOTS, sizeof(*slots));
    CHECK(slots != NULL, "calloc");
    uint64_t random = (uint64_t)(uintptr_t)number << 32;
    timer_t timer;
    start_timer(&timer, PERIOD_NS + (int)(uintptr_t)number * 1000);
    errno = 0x5a5a;
    uint64_t seed = 0;
    while (signals < SIGNALS_WANTED)
        step(&slots[next_random(&random) % SLOTS], &random, ++seed);
    CHECK(errno == 0x5a5a, "errno changed");
    timer_delete(timer);
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i].object != NULL)
            CHECK_PATTERN(slots[i].object, slots[i].size, slots[i].seed);
        free(slots[i].object);
    }
    free(slots);
    return number;
}

int main(void)
{
    require_quarry();
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    CHECK(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    struct itimerval interval = {{0, 50}, {0, 50}};
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0, "setitimer");
    pthread_t threads[3];
    for (size_t i = 0; i < LENGTH(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_in_the_storm, (void *)(i + 1)) == 0,
              "pthread_create");
    allocate_in_the_storm(NULL);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    return 0;
}
