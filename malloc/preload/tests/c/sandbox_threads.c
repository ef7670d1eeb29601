/*
 * A process with threads under filters that end it at the first call which the C library's malloc
 * does not make.
 * usage: sandbox_threads each|all
 *   each: every thread of the program has a filter of its own, and the allocator's thread has none
 *   all:  all threads have one, which allows no files, and of madvise only MADV_DONTNEED
 */
#include "deadline.h"
#include "filter.h"
#include "load.h"
#include "memory.h"

#include <pthread.h>

enum { WORKERS = 3 };

static pthread_barrier_t filtered;
static int each;

static void enter_sandbox(void)
{
    struct filter filter;
    filter_start(&filter);
    if (!each) {
        filter_allow_value(&filter, SYS_madvise, MADV_DONTNEED);
        filter_answer(&filter, SYS_openat, SECCOMP_RET_KILL_PROCESS);
    }
    filter_allow(&filter, OF_MALLOC, LENGTH(OF_MALLOC));
    filter_allow(&filter, OF_THREADS, LENGTH(OF_THREADS));
    filter_install(&filter, each ? 0 : SECCOMP_FILTER_FLAG_TSYNC);
}

static void *work(void *argument)
{
    struct heap *heap = argument;
    if (each)
        enter_sandbox();
    pthread_barrier_wait(&filtered);
    bursts();
    grow(heap);
    malloc_trim(0);
    resize();
    shrink(heap);
    malloc_trim(0);
    bursts();
    return NULL;
}

int main(int argc, char **argv)
{
    static struct heap heaps[WORKERS + 1];
    CHECK(argc == 2, "usage: %s each|all", argv[0]);
    each = strcmp(argv[1], "each") == 0;
    require_quarry();
    deadline(80, "threads behind filters");
    have_had_a_thread();
    give_a_thread_reason(each ? 2 : 1);
    pthread_barrier_init(&filtered, NULL, WORKERS + 1);
    pthread_t workers[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, work, &heaps[i]) == 0, "pthread_create");
    if (!each)
        enter_sandbox();
    work(&heaps[WORKERS]);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    _exit(0);
}
