/*
 * The C library frees the thread-local storage of an ended thread while it holds the lock that
 * pthread_create takes as well, where the thread ran on a stack of the program's. That `free` may
 * be the one that finds 32 MiB to give back, so it must not be the one that starts a thread.
 */
#include "deadline.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { BLOCKS = 48, FILLERS = 64, STACK = 256 * 1024 };

static void *end_at_once(void *argument)
{
    return argument;
}

/* Frees `fillers` objects of the size of a thread's storage: for some number, the array is full. */
static void join_after(size_t fillers, size_t size, void *stack)
{
    void *objects[FILLERS];
    for (size_t i = 0; i < fillers; i++)
        objects[i] = malloc(size);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, stack, STACK) == 0, "pthread_attr_setstack");
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, end_at_once, NULL) == 0, "pthread_create");
    for (size_t i = 0; i < fillers; i++)
        free(objects[i]);
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    free(malloc(size));
}

int main(void)
{
    require_quarry();
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(MIB);
        CHECK(blocks[i] != NULL, "malloc");
        memset(blocks[i], 1, MIB);
    }
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED, "mmap");
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    /* A child has no such thread yet, but as much to give back: its first slow `free` would start
     * it. */
    static const size_t sizes[] = {320, 384};
    for (size_t size = 0; size < LENGTH(sizes); size++) {
        for (size_t fillers = 0; fillers < FILLERS; fillers++) {
            pid_t child = fork();
            CHECK(child >= 0, "fork");
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                join_after(fillers, sizes[size], stack);
                _exit(0);
            }
            int status = 0;
            deadline(30, "a child that joins a thread on a stack of the program's");
            CHECK(waitpid(child, &status, 0) == child && status == 0,
                  "%zu objects of %zu bytes: %#x", fillers, sizes[size], status);
        }
    }
    return 0;
}
