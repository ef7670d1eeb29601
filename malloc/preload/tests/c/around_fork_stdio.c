/*
 * One thread allocates under the lock of a stream. Another holds the lock of the C library's list
 * of streams, and waits for that stream. fork takes the lock of the list, too.
 */
#include "deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FORKS = 60, LINE = 1200000 };

static atomic_int stop;
static FILE *lines;

/* getline allocates with the stream locked. */
static void *read_lines(void *unused)
{
    while (!atomic_load(&stop)) {
        char *line = NULL;
        size_t size = 0;
        if (getline(&line, &size, lines) < 0)
            rewind(lines);
        free(line);
    }
    return unused;
}

/* fflush(NULL) locks the list of streams, then each stream. */
static void *flush_all(void *unused)
{
    while (!atomic_load(&stop))
        fflush(NULL);
    return unused;
}

/* fopen and fclose lock the list too, and allocate. */
static void *open_and_close(void *unused)
{
    while (!atomic_load(&stop)) {
        FILE *file = fopen("/dev/null", "w");
        CHECK(file != NULL, "/dev/null");
        fputs("something", file);
        fclose(file);
    }
    return unused;
}

static void use_streams_in_child(void)
{
    deadline(20, "the child of a fork uses streams");
    FILE *file = fopen("/dev/null", "w");
    CHECK(file != NULL, "/dev/null");
    fputs("something", file);
    fflush(NULL);
    fclose(file);
    free(malloc(5000));
    _exit(0);
}

int main(void)
{
    require_quarry();
    lines = tmpfile();
    CHECK(lines != NULL, "tmpfile");
    for (int i = 0; i < LINE; i++)
        putc(i % (LINE / 3) == 1 ? '\n' : 'x', lines);
    rewind(lines);
    void *(*const work[])(void *) = {read_lines, read_lines, flush_all, open_and_close};
    pthread_t threads[LENGTH(work)];
    for (size_t i = 0; i < LENGTH(work); i++)
        CHECK(pthread_create(&threads[i], NULL, work[i], NULL) == 0, "pthread_create");
    deadline(60, "fork under the locks of streams");
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0)
            use_streams_in_child();
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "child %d: %#x", i, status);
    }
    atomic_store(&stop, 1);
    for (size_t i = 0; i < LENGTH(work); i++)
        pthread_join(threads[i], NULL);
    return 0;
}
