/*
 * Threads allocate larger and larger blocks until there is no memory for the next one, write
 * the first word of each, and free them all, over and over again. Sizes grow by 2, 3, 5 or as
 * Fibonacci's numbers. Most of the memory stays untouched, and most rounds end with a refused
 * request.
 * usage: stress_giants THREADS ROUNDS [marks]
 * With `marks` threads do not yield, and all rounds lie between two calls of getppid.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>

#define MOST 60
#define MOST_THREADS 256

static int rounds;
static int marks;
static pthread_barrier_t start;

static void yield(void)
{
    if (!marks)
        sched_yield();
}

static size_t next_size(unsigned scheme, size_t size, size_t before)
{
    static const size_t factors[] = {2, 3, 5};
    return scheme == 3 ? size + before : size * factors[scheme];
}

static void round_of(unsigned scheme, uintptr_t mark)
{
    uintptr_t *blocks[MOST];
    unsigned count = 0;
    size_t size = 1, before = 1;
    while (count < MOST) {
        uintptr_t *block = malloc(size < sizeof *block ? sizeof *block : size);
        if (block == NULL)
            break;
        *block = mark + count;
        blocks[count++] = block;
        size_t next = next_size(scheme, size, before);
        if (next < size)
            break;
        before = size;
        size = next;
        yield();
    }
    /* All threads together may have used up the addresses for large blocks only. */
    CHECK(size > MIB, "refused %zu bytes", size);
    for (unsigned at = 0; at < count; at++) {
        CHECK(*blocks[at] == mark + at, "block %u of %u", at, count);
        free(blocks[at]);
        yield();
    }
}

static void *work(void *number)
{
    uintptr_t mark = (uintptr_t)number << 32;
    pthread_barrier_wait(&start);
    for (int at = 0; at < rounds; at++)
        round_of((uintptr_t)number % 4, mark + ((uintptr_t)at << 8));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3, "usage: threads rounds [marks]");
    marks = argc > 3;
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    CHECK(threads > 0 && threads <= MOST_THREADS, "%d threads", threads);
    CHECK(pthread_barrier_init(&start, NULL, threads) == 0, "a barrier");
    /* The first rounds build what later rounds use again. */
    if (marks) {
        CHECK(threads == 1, "marks are the first thread's");
        CHECK(pthread_barrier_init(&start, NULL, 1) == 0, "a barrier");
        work(NULL);
        getppid();
        work(NULL);
        getppid();
        return 0;
    }
    pthread_t all[MOST_THREADS];
    for (uintptr_t at = 0; at < (uintptr_t)threads; at++)
        CHECK(pthread_create(&all[at], NULL, work, (void *)at) == 0, "thread %zu", (size_t)at);
    for (int at = 0; at < threads; at++)
        CHECK(pthread_join(all[at], NULL) == 0, "thread %d", at);
    return 0;
}
