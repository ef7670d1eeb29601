/*
 * A daemon forks twice, leaves its session, closes every file descriptor, and goes on with the
 * memory of its ancestors. The first ancestor adopts the daemon, to learn how it ended.
 */
#include "deadline.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { OBJECTS = 500, BLOCKS = 48 };
static void *objects[OBJECTS];

static size_t size_of(size_t number)
{
    return number * 97 + 1;
}

static void *serve(void *unused)
{
    uint64_t random = 3;
    for (int i = 0; i < 5000; i++) {
        size_t size = random_size(&random, i % 100 == 0 ? 3 * MIB : 5000);
        void *object = malloc(size);
        if (object == NULL)
            _exit(3);
        pattern_fill(object, size, size);
        if (pattern_mismatch(object, size, size) != size)
            _exit(4);
        free(object);
    }
    return unused;
}

/* No descriptor is left to print to: exit codes say what failed. */
static void live_as_daemon(void)
{
    alarm(40);
    for (size_t i = 0; i < OBJECTS; i++) {
        if (pattern_mismatch(objects[i], size_of(i), i) != size_of(i))
            _exit(5);
        objects[i] = realloc(objects[i], size_of(i) * 2);
        if (objects[i] == NULL || pattern_mismatch(objects[i], size_of(i), i) != size_of(i))
            _exit(6);
    }
    pthread_t threads[3];
    for (size_t i = 0; i < LENGTH(threads); i++)
        if (pthread_create(&threads[i], NULL, serve, NULL) != 0)
            _exit(7);
    serve(NULL);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < OBJECTS; i++)
        free(objects[i]);
    malloc_trim(0);
}

static void become_daemon(void)
{
    if (fork() != 0)
        _exit(0);
    setsid();
    if (fork() != 0)
        _exit(0);
    if (syscall(SYS_close_range, 0, ~0U, 0) != 0)
        for (int file = 0; file < 1024; file++)
            close(file);
    live_as_daemon();
    exit(0);
}

int main(void)
{
    require_quarry();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "subreaper");
    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(size_of(i));
        CHECK(objects[i] != NULL, "malloc(%zu)", size_of(i));
        pattern_fill(objects[i], size_of(i), i);
    }
    /* The ancestor has a reclaim thread, and much to give back. */
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(MIB), 1, MIB);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0)
            become_daemon();
        int status, ended = 0;
        while (wait(&status) > 0) {
            CHECK(status == 0, "a process of the daemon ended with %#x", status);
            ended++;
        }
        CHECK(ended == 3, "%d processes ended, not the child, its child and the daemon", ended);
    }
    return 0;
}
