/*
 * In each run one request to the system fails, or that request and all later ones. malloc returns
 * NULL with ENOMEM, live objects keep their contents, and every invariant holds. When the system
 * serves again, malloc does, too. The allocator calls the functions below, because the loader finds
 * them before the C library's.
 */
#include "refused.h"
#include "system_call.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>

static atomic_long calls;
static atomic_long first_failing = LONG_MAX;
static atomic_long last_failing = LONG_MAX;

static int fails(void)
{
    long call = atomic_fetch_add(&calls, 1) + 1;
    return call >= atomic_load(&first_failing) && call <= atomic_load(&last_failing);
}

static long answer(long number, long a, long b, long c, long d, long e, long f)
{
    if (fails()) {
        errno = ENOMEM;
        return -1;
    }
    return system_call(number, a, b, c, d, e, f);
}

/* The allocator's calls for other things than memory fail too, except for sleeping and waking. */
long syscall(long number, ...)
{
    va_list rest;
    va_start(rest, number);
    long words[6];
    for (size_t i = 0; i < LENGTH(words); i++)
        words[i] = va_arg(rest, long);
    va_end(rest);
    long (*call)(long, long, long, long, long, long, long) =
        number == SYS_futex ? system_call : answer;
    return call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

void *mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset)
{
    return (void *)answer(SYS_mmap, (long)address, (long)bytes, access, flags, file, offset);
}

void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

int mprotect(void *address, size_t bytes, int access)
{
    return (int)answer(SYS_mprotect, (long)address, (long)bytes, access, 0, 0, 0);
}

int madvise(void *address, size_t bytes, int advice)
{
    return (int)answer(SYS_madvise, (long)address, (long)bytes, advice, 0, 0, 0);
}

void *mremap(void *address, size_t bytes, size_t wanted, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    long target = (long)va_arg(rest, void *);
    va_end(rest);
    return (void *)answer(SYS_mremap, (long)address, (long)bytes, (long)wanted, flags, target, 0);
}

enum how { ONCE, FROM_THERE };

/*
 * Runs in a child, so that each run starts before the first allocation. Returns how often requests
 * were refused; if nothing is to fail (nth = 0), how many calls a run makes.
 */
static int run(long nth, enum how how)
{
    int pipes[2];
    CHECK(pipe(pipes) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        deadline(60, "a run on a system that fails");
        long before = atomic_load(&calls);
        if (nth > 0) {
            atomic_store(&last_failing, how == ONCE ? before + nth : LONG_MAX);
            atomic_store(&first_failing, before + nth);
        }
        int result[2] = {play(), 0};
        atomic_store(&first_failing, LONG_MAX);
        result[1] = (int)(atomic_load(&calls) - before);
        int again = play();
        CHECK(again == 0, "call %ld failed, and later %d requests on a good system", nth, again);
        require_quarry();
        check_heap("at the end");
        CHECK(write(pipes[1], result, sizeof(result)) == sizeof(result), "write");
        exit(0);
    }
    int status = 0, result[2] = {-1, -1};
    CHECK(waitpid(child, &status, 0) == child && status == 0, "call %ld: %#x", nth, status);
    CHECK(read(pipes[0], result, sizeof(result)) == sizeof(result), "read");
    close(pipes[0]);
    close(pipes[1]);
    return nth == 0 ? result[1] : result[0];
}

int main(void)
{
    int all = run(0, ONCE);
    int once = 0, from = 0;
    for (long nth = 1; nth <= all; nth += test_step()) {
        once += run(nth, ONCE) > 0;
        from += run(nth, FROM_THERE) > 0;
    }
    char text[100];
    int length = snprintf(text, sizeof(text), "%d calls: %d alone and %d with all that follow made "
                          "requests fail\n", all, once, from);
    CHECK(write(1, text, (size_t)length) == length, "write");
    CHECK(testing_a_peer() || (all >= 20 && from >= 3), "the calls were not caught");
    return 0;
}
