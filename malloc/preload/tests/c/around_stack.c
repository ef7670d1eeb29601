/*
 * When a thread ends whose stack was provided by the program, the C library frees the thread's
 * local storage while it holds a lock that pthread_create takes as well. This `free` may find that
 * 32 MiB can be given back, but it must not start a thread.
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

/* Frees `fillers` objects as large as a thread's storage: some number of them fills the array. */
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
    /* A child has no background thread yet, but it has the parent's free memory to give back: its
     * first slow `free` would start the thread. */
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
