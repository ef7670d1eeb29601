/*
 * Writes beyond objects, in front of them and to freed ones, at random, between random allocations
 * and frees. Whatever it breaks, no object may have two owners, and Quarry itself may neither crash
 * nor hang: each child ends well, by a report, or in its own bad write.
 * usage: misuse_fuzz ROUNDS
 */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

enum { OBJECTS = 4096, STEPS = 60000, STARTS = 1 << 15, CRASHED = 9, TWO_OWNERS = 8 };

static char *live[OBJECTS], *freed[OBJECTS];
/* A hash table of the addresses of all objects so far, and whether an object there is live. */
static uintptr_t starts[STARTS];
static char is_live[STARTS];
static size_t used;
static volatile int is_misusing;

static void on_fault(int number UNUSED)
{
    _exit(is_misusing ? 0 : CRASHED);
}

static size_t place_of(uintptr_t start)
{
    size_t place = mix(start) % STARTS;
    while (starts[place] != 0 && starts[place] != start)
        place = (place + 1) % STARTS;
    return place;
}

static void add(char *object)
{
    size_t place = place_of((uintptr_t)object);
    if (is_live[place])
        _exit(TWO_OWNERS);
    used += starts[place] == 0;
    CHECK(used < STARTS, "%zu objects", used);
    starts[place] = (uintptr_t)object;
    is_live[place] = 1;
}

static void allocate(size_t slot, uint64_t *state)
{
    static const size_t sizes[] = {16, 16, 16, 32, 32, 48, 64, 100, 112, 160, 200, 240, 1000, 5000};
    size_t size = sizes[next_random(state) % LENGTH(sizes)];
    live[slot] = opaque(malloc(size));
    CHECK(live[slot] != NULL, "malloc(%zu)", size);
    add(live[slot]);
}

static void release(size_t slot)
{
    is_live[place_of((uintptr_t)live[slot])] = 0;
    freed[slot] = live[slot];
    live[slot] = NULL;
    free(freed[slot]);
}

static void misuse(size_t slot, uint64_t *state)
{
    char *object = live[slot];
    if (object == NULL)
        object = freed[slot];
    if (object == NULL)
        return;
    size_t bytes = 1 + next_random(state) % 16;
    char value = (char)(next_random(state) % 3 == 0 ? 0xff : next_random(state));
    char *at = object;
    if (live[slot] != NULL && next_random(state) % 4 != 0)
        at += malloc_usable_size(object);
    else if (live[slot] != NULL)
        at -= bytes;
    is_misusing = 1;
    memset(opaque(at), value, bytes);
    is_misusing = 0;
}

static void child(uint64_t seed)
{
    uint64_t state = seed << 32;
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    alarm(20);
    for (int step = 0; step < STEPS; step++) {
        size_t slot = next_random(&state) % OBJECTS;
        if (next_random(&state) % 512 == 0)
            misuse(slot, &state);
        else if (live[slot] == NULL)
            allocate(slot, &state);
        else
            release(slot);
        if (step % 10000 == 9999)
            malloc_trim(0);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, reported = 0;
    for (int round = 0; round < rounds; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork");
        if (pid == 0)
            child((uint64_t)round + 1);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
        if (WIFSIGNALED(status)) {
            CHECK(WTERMSIG(status) == SIGABRT, "round %d: signal %d", round, WTERMSIG(status));
            reported++;
        } else {
            CHECK(WEXITSTATUS(status) == 0, "round %d: exit code %d", round, WEXITSTATUS(status));
        }
    }
    printf("%d of %d reported\n", reported, rounds);
    return 0;
}
