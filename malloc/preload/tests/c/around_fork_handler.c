/*
 * fork in a handler of a signal that interrupts malloc, free or fork itself. The process has one
 * thread; with the argument "reclaim" it also has the library's background thread, and with "brief"
 * that of a process with one thread, which comes and goes.
 *
 * Another process sends a signal after each step of the program. Of the children that the handler
 * forks, every second one returns from the handler and goes on with the interrupted work.
 */
#include "deadline.h"
#include "memory.h"
#include "slots.h"

#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { FORKS = 300, SLOTS = 60, STEPS_OF_CHILD = 60 };

static struct slot slots[SLOTS];
static uint64_t draws;
static volatile sig_atomic_t forks;
static volatile sig_atomic_t is_child;
static bool children_return, forks_itself;

static void wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) != child) {
        /* A signal here may have forked: this process is then the child, and `child` is its
         * sibling. */
        if (is_child && errno == ECHILD)
            return;
        CHECK(errno == EINTR, "waitpid");
    }
    CHECK(status == 0, "a child ended with %#x", status);
}

static void on_signal(int number)
{
    (void)number;
    int saved = errno;
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!children_return || forks % 2 == 0)
            _exit(0);
        is_child = 1;
        errno = saved;
        return;
    }
    wait_for(child);
    forks++;
    errno = saved;
}

/* Objects of every kind, most of them too large for the fast path. */
static void step(void)
{
    uint64_t draw = next_random(&draws);
    slot_replace(&slots[draw % SLOTS], random_size(&draws, draw & 3 ? 200 * KIB : 3 * MIB), draw);
    if (draw % 16 != 5 || !forks_itself)
        return;
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0)
        _exit(0);
    wait_for(child);
}

/* Frees enough for the reclaim thread to start and to have work. */
static void give_work_to_reclaim(void)
{
    void *blocks[40];
    for (size_t i = 0; i < LENGTH(blocks); i++) {
        blocks[i] = malloc(MIB);
        CHECK(blocks[i] != NULL, "malloc(%zu)", MIB);
        memset(blocks[i], 1, MIB);
    }
    for (size_t i = 0; i < LENGTH(blocks); i++)
        free(blocks[i]);
}

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "/proc/self/task");
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static pid_t start_sender(atomic_uint *steps)
{
    pid_t target = getpid(), sender = fork();
    CHECK(sender >= 0, "fork");
    if (sender > 0)
        return sender;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsigned seen = 0;
    for (uint64_t round = 0;; round++) {
        while (atomic_load(steps) == seen)
            sched_yield();
        seen = atomic_load(steps);
        /* So that the signal does not always come at the same place of a step. */
        for (volatile uint64_t idle = mix(round) % 4000; idle > 0; idle--) {
        }
        kill(target, SIGUSR1);
    }
}

int main(int argc, char **argv)
{
    require_quarry();
    bool stays = argc > 1 && strcmp(argv[1], "reclaim") == 0;
    bool reclaims = stays || (argc > 1 && strcmp(argv[1], "brief") == 0);
    /* Beside another thread, fork is not async-signal-safe: glibc holds a lock of its own. */
    children_return = forks_itself = !reclaims;
    deadline(60, "a program forks in a handler");
    if (stays)
        have_had_a_thread();
    if (reclaims)
        give_work_to_reclaim();
    if (!testing_a_peer() && stays == reclaims)
        CHECK(count_threads() == 1 + stays, "%d threads", count_threads());
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    atomic_uint *steps = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, shared, -1, 0);
    CHECK(steps != MAP_FAILED, "mmap");
    pid_t sender = start_sender(steps);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    for (uint64_t round = 0; forks < FORKS && !is_child; round++) {
        atomic_fetch_add(steps, 1);
        step();
        if (reclaims && round % 64 == 63)
            give_work_to_reclaim();
    }
    if (is_child) {
        deadline(30, "a child returns from the handler");
        for (int i = 0; i < STEPS_OF_CHILD; i++)
            step();
    } else {
        kill(sender, SIGKILL);
        waitpid(sender, NULL, 0);
    }
    slots_free(slots, SLOTS);
    if (!is_child || forks % 16 == 1)
        check_heap(is_child ? "in a child" : "in the parent");
    if (is_child)
        _exit(0);
    return 0;
}
