/*
 * The main thread of a program ends by pthread_exit, and then its last other thread ends. The
 * process ends as it does without the allocator's thread, and functions registered for the exit run
 * on a stack of the usual size.
 */
#include "deadline.h"
#include "memory.h"

#include <pthread.h>

static void at_exit(void)
{
    volatile unsigned char room[512 * 1024];
    for (size_t i = 0; i < sizeof(room); i += PAGE)
        room[i] = 1;
    CHECK(room[0] == 1 && write(1, "handlers ran\n", 13) == 13, "write");
}

static void *end_after_main(void *main_thread)
{
    CHECK(pthread_join(*(pthread_t *)main_thread, NULL) == 0, "pthread_join");
    return NULL;
}

int main(void)
{
    static pthread_t main_thread;
    require_quarry();
    have_had_a_thread();
    give_a_thread_reason(2);
    CHECK(atexit(at_exit) == 0, "atexit");
    main_thread = pthread_self();
    pthread_t other;
    CHECK(pthread_create(&other, NULL, end_after_main, &main_thread) == 0, "pthread_create");
    pthread_detach(other);
    pthread_exit(NULL);
}
