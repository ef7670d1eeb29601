/*
 * A real-time thread that is bound to one CPU starts the thread that gives memory back. The new
 * thread is an ordinary one, and may run on all CPUs that the process was given.
 * Exits with 77 and a reason where this user may not have a real-time thread.
 */
#include "deadline.h"
#include "memory.h"

#include <sched.h>

/* The one thread beside this one. */
static pid_t other_thread(void)
{
    pid_t found = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        if (atoi(task->d_name) > 0 && atoi(task->d_name) != getpid())
            found = atoi(task->d_name);
    closedir(tasks);
    return found;
}

int main(void)
{
    cpu_set_t given, one, found;
    require_quarry();
    CHECK(sched_getaffinity(0, sizeof(given), &given) == 0, "sched_getaffinity");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
    struct sched_param priority = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
        printf("this user may not have real-time threads: %s\n", strerror(errno));
        return 77;
    }
    have_had_a_thread();
    give_a_thread_reason(2);
    pid_t thread = other_thread();
    CHECK(thread != 0, "there is no reclaim thread");
    CHECK(sched_getscheduler(0) == SCHED_FIFO, "this thread is an ordinary one now");
    /* The thread changes itself, and this one must let it run. */
    deadline(60, "the reclaim thread is no ordinary one, or may not run on all CPUs");
    do {
        nap_ms(1);
        CHECK(sched_getaffinity(thread, sizeof(found), &found) == 0, "sched_getaffinity");
    } while (sched_getscheduler(thread) != SCHED_OTHER || !CPU_EQUAL(&found, &given));
    return 0;
}
