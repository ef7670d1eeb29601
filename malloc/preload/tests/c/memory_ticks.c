/*
 * usage: memory_ticks
 * A program of two threads frees most of a burst, and then only makes and frees a few objects of
 * other sizes once a second, as a server does that waits. A look finds their caches idle, and takes
 * these objects back. The thread that gives memory back has to fall asleep all the same: there has
 * to be a time of TICKS seconds in which it wakes at most MOST_WAKES times. Asleep it wakes once a
 * second, awake four times and more.
 */
#include "deadline.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>

enum { OBJECTS = 20000, KEPT_EACH = 10, TICKS = 5, MOST_WAKES = 10 };

static void *wait_for_ever(void *nothing)
{
    pause();
    return nothing;
}

/* A line of /proc/self/task/TASK/status, whose name is `name`, or "". Allocates nothing. */
static const char *status_line(const char *task, const char *name, char text[static 4096])
{
    char path[300];
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, 4095);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    const char *line = strstr(text, name);
    return line == NULL ? "" : line + strlen(name);
}

/* The number of the thread that gives memory back. */
static void find_thread(char found[static 256])
{
    char text[4096];
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "no /proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        if (strncmp(status_line(entry->d_name, "Name:\t", text), "quarry-reclaim", 14) == 0)
            snprintf(found, 256, "%s", entry->d_name);
    closedir(tasks);
    CHECK(found[0] != 0, "no thread gives memory back");
}

/* How often it has given its CPU up. */
static long sleeps(const char *thread)
{
    char text[4096];
    return atol(status_line(thread, "\nvoluntary_ctxt_switches:", text));
}

static void tick(void)
{
    for (size_t size = 16; size < 200; size *= 2)
        free(opaque(malloc(size)));
    sleep(1);
}

int main(void)
{
    pthread_t other;
    char thread[256] = "";
    static void *objects[OBJECTS];
    require_quarry();
    deadline(60, "the thread does not fall asleep");
    CHECK(pthread_create(&other, NULL, wait_for_ever, NULL) == 0, "pthread_create");
    uint64_t random = 1;
    for (size_t i = 0; i < OBJECTS; i++)
        objects[i] = memset(malloc(2600 + next_random(&random) % 800), 1, 2600);
    for (size_t i = 0; i < OBJECTS; i++)
        if (next_random(&random) % KEPT_EACH != 0)
            free(objects[i]);
    find_thread(thread);
    for (bool is_asleep = false; !is_asleep;) {
        long before = sleeps(thread);
        for (int i = 0; i < TICKS; i++)
            tick();
        is_asleep = sleeps(thread) - before <= MOST_WAKES;
    }
    return 0;
}
