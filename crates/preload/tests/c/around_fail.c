/*
 * Every request to the system fails once, and everything from every request on: NULL comes out with
 * ENOMEM, what is live keeps its contents, and when the system serves again, so does malloc. The
 * calls of the allocator meet the functions below, which stand in front of the C library's.
 */
#include "deadline.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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
    return syscall(number, a, b, c, d, e, f);
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

enum { OBJECTS = 400 };
static struct {
    unsigned char *address;
    size_t size;
} live[OBJECTS];
static size_t count;
static int refused;

static void keep(void *object, size_t size, const char *entry)
{
    if (object == NULL) {
        CHECK(errno == ENOMEM, "%s of %zu bytes was refused without ENOMEM", entry, size);
        refused++;
        return;
    }
    CHECK(count < OBJECTS, "too many objects");
    pattern_fill(object, size, count);
    live[count].address = object;
    live[count++].size = size;
}

static void allocate_zeroed(size_t size)
{
    errno = 0;
    unsigned char *object = calloc(1, size);
    for (size_t i = 0; object != NULL && i < size; i += size < 5000 ? 1 : 509)
        CHECK(object[i] == 0, "calloc(%zu) is not zero at %zu", size, i);
    keep(object, size, "calloc");
}

static void allocate_aligned(size_t size)
{
    void *object = NULL;
    int error = posix_memalign(&object, 64 * KIB, size);
    CHECK(error == 0 || error == ENOMEM, "posix_memalign(%zu) says %d", size, error);
    CHECK(error == 0 || object == NULL, "posix_memalign failed and gave %p", object);
    errno = error;
    keep(object, size, "posix_memalign");
}

static void resize(size_t number, size_t size)
{
    errno = 0;
    unsigned char *moved = realloc(live[number].address, size);
    if (moved == NULL) {
        CHECK(errno == ENOMEM, "realloc to %zu was refused without ENOMEM", size);
        CHECK_PATTERN(live[number].address, live[number].size, number);
        refused++;
        return;
    }
    CHECK_PATTERN(moved, size < live[number].size ? size : live[number].size, number);
    pattern_fill(moved, size, number);
    live[number].address = moved;
    live[number].size = size;
}

static void free_all(void)
{
    while (count > 0) {
        count--;
        CHECK_PATTERN(live[count].address, live[count].size, count);
        free(live[count].address);
    }
}

/* Asks for every kind of memory, returns how often it was refused. */
static int play(void)
{
    static const size_t sizes[] = {16, 200, 3000, 30000, 100000, 700000, 2 * MIB};
    refused = 0;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < LENGTH(sizes); i++) {
            for (int copy = 0; copy < (sizes[i] < 5000 ? 8 : 1); copy++) {
                errno = 0;
                keep(malloc(sizes[i]), sizes[i], "malloc");
            }
            allocate_zeroed(sizes[i]);
            allocate_aligned(sizes[i]);
        }
        for (size_t i = 0; i < count; i += 3)
            resize(i, live[i].size * (i % 2 == 0 ? 3 : 1) / (i % 2 == 0 ? 1 : 3) + 1);
        malloc_trim(0);
        if (round == 0)
            free_all();
    }
    free_all();
    malloc_trim(0);
    return refused;
}

enum how { ONCE, FROM_THERE };

/*
 * In a child, so that each run starts before the first allocation. Returns how often requests were
 * refused; where nothing is to fail (nth = 0), how many calls a run makes.
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
    for (long nth = 1; nth <= all; nth++) {
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
