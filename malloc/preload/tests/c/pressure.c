/*
 * The system is short of memory, as a file says that this program writes: free memory must go back.
 *
 *   pressure FILE total|pipe none|thread|off|never
 *
 * total, pipe: FILE has the form of the kernel's, or is a named pipe. none: the program has one
 * thread, so its slow paths look; thread: a background thread does; off: nobody looks.
 */
#include "deadline.h"
#include "memory.h"
#include "pressure.h"

#include <sys/stat.h>

static const char *file;
static int is_pipe;

static void press(void)
{
    static unsigned long total = 1000000;
    if (!is_pipe)
        return write_total(file, total += 1000000);
    /* Fails without a reader: the program has closed that, which opens the pipe again. */
    int out = open(file, O_WRONLY | O_NONBLOCK);
    if (out >= 0) {
        CHECK(write(out, "!", 1) == 1, "the pipe is full");
        close(out);
    }
}

static void take_slow_path(void)
{
    void *volatile large = malloc(2 * MIB);
    CHECK(large != NULL, "no memory");
    free(large);
}

static void *wait_for_ever(void *unused)
{
    pause();
    return unused;
}

enum { OBJECTS = 40000, BYTES = 3000 };

/* Memory that is free and stays in the process, because the delay is an hour. */
static void fill_and_free(void)
{
    static void *objects[OBJECTS];
    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(BYTES);
        CHECK(objects[i] != NULL, "no memory");
        memset(objects[i], 1, BYTES);
    }
    for (size_t i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

int main(int count, char **arguments)
{
    CHECK(count == 4, "usage: pressure FILE total|pipe none|thread|off|never");
    require_quarry();
    file = arguments[1];
    is_pipe = strcmp(arguments[2], "pipe") == 0;
    const char *who = arguments[3];
    int is_heard = strcmp(who, "none") == 0 || strcmp(who, "thread") == 0;
    if (is_pipe)
        CHECK(mkfifo(file, 0600) == 0, "%s", file);
    else
        write_total(file, 1000000);
    pthread_t thread;
    if (strcmp(who, "thread") == 0)
        CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0, "no thread");

    for (int round = 0; round < (is_heard ? 3 : 1); round++) {
        size_t before = resident_bytes();
        fill_and_free();
        size_t full = resident_bytes(), freed = (size_t)OBJECTS * BYTES / 2;
        /* What was told at the end of the last round may be heard while this one still frees. */
        size_t most = before + freed;
        CHECK(is_heard || full >= most, "%zu bytes before, %zu after all was freed", before, full);
        deadline(60, "free memory does not go back");
        /* Where nobody hears, a thousand slow paths and two seconds change nothing. */
        for (int i = 0; is_heard ? resident_bytes() > most : i < 20; i++) {
            press();
            for (int j = 0; j < 50; j++)
                take_slow_path();
            pause_ms(100);
        }
        CHECK(is_heard || resident_bytes() >= full - freed, "memory went back");
        /* Programs close what they do not know. */
        if (is_pipe)
            close_range(3, ~0u, 0);
    }
    return 0;
}
