/*
 * A thread that a debugger steps is interrupted in each restartable sequence. Each call must end
 * all the same, and do what it does at full speed, also if only one of several threads is stepped.
 *
 *     stepped small|large|growing|aligned|beside
 *     stepped watched      a debugger steps from `begin_to_watch` until `watched` changes
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* Far more instructions than any call needs that publishes statistics, too. A step takes some
 * 30 us. Objects are small where they are copied or zeroed: each byte may take a step. */
enum { STEPS_OF_A_CALL = 250 * 1000, OBJECTS = 20, THREADS = 2 };

/* Shared with the tracer: calls made so far, and whether the stepped part is over. */
static struct shared {
    atomic_ulong calls;
    atomic_int is_over;
} *shared;

/* Counts one call of the allocator. */
#define CALLED(call) (atomic_fetch_add(&shared->calls, 1), (call))

static void fill(void *object, size_t size, int seed)
{
    CHECK(object != NULL, "%zu bytes", size);
    unsigned char *bytes = object;
    bytes[0] = bytes[size - 1] = (unsigned char)seed;
}

static void check_and_free(void *object, size_t size, int seed)
{
    unsigned char *bytes = object;
    CHECK(bytes[0] == (unsigned char)seed && bytes[size - 1] == bytes[0], "%zu bytes", size);
    CALLED(free(object));
}

/* More objects than a slot's array has room for at first, so that it runs empty and full. */
static void small(void)
{
    static const size_t sizes[] = {100, 1000, 20000};
    void *objects[OBJECTS];
    for (size_t kind = 0; kind < LENGTH(sizes); kind++) {
        for (int i = 0; i < OBJECTS; i++) {
            size_t size = sizes[kind];
            objects[i] = i % 8 + kind == 0 ? CALLED(calloc(1, size)) : CALLED(malloc(size));
            fill(objects[i], sizes[kind], i);
        }
        for (int i = 0; i < OBJECTS; i++)
            check_and_free(objects[i], sizes[kind], i);
    }
}

/* Blocks of pages and mappings, which are touched at both ends only. */
static void large(void)
{
    for (size_t size = 40000; size < 64 * MIB; size *= 9) {
        void *object = CALLED(malloc(size));
        fill(object, size, 3);
        void *other = CALLED(malloc(size));
        fill(other, size, 4);
        check_and_free(object, size, 3);
        check_and_free(other, size, 4);
    }
    CALLED(malloc_trim(0));
}

static void growing(void)
{
    size_t size = 1;
    void *object = CALLED(malloc(size));
    fill(object, size, 9);
    for (; size < 2000; size = size * 3 / 2 + 1) {
        object = CALLED(realloc(object, size * 3 / 2 + 1));
        fill(object, size * 3 / 2 + 1, 9);
    }
    check_and_free(object, size, 9);
}

static void aligned(void)
{
    for (size_t align = 32; align <= 64 * KIB; align *= 8) {
        void *object = NULL;
        CHECK(CALLED(posix_memalign(&object, align, 200)) == 0, "%zu", align);
        CHECK((uintptr_t)object % align == 0, "%p is not aligned to %zu", object, align);
        fill(object, 200, 5);
        check_and_free(object, 200, 5);
    }
}

static void few(void)
{
    for (int i = 0; i < 8; i++) {
        void *object = CALLED(malloc(100));
        fill(object, 100, i);
        object = CALLED(realloc(object, 300));
        check_and_free(object, 1, i);
    }
}

static void *run_freely(void *argument)
{
    (void)argument;
    uint64_t random = (uint64_t)gettid();
    void *objects[OBJECTS] = {NULL};
    size_t sizes[OBJECTS] = {0};
    for (uint64_t seed = 0; !atomic_load(&shared->is_over); seed++) {
        size_t i = seed % OBJECTS;
        if (objects[i] != NULL)
            CHECK_PATTERN(objects[i], sizes[i], i);
        free(objects[i]);
        sizes[i] = random_size(&random, 3000);
        objects[i] = malloc(sizes[i]);
        CHECK(objects[i] != NULL, "%zu bytes", sizes[i]);
        pattern_fill(objects[i], sizes[i], i);
    }
    for (size_t i = 0; i < OBJECTS; i++)
        free(objects[i]);
    return NULL;
}

static void be_stepped(void (*work)(void), int threads)
{
    pthread_t others[THREADS];
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&others[i], NULL, run_freely, NULL) == 0, "thread %d", i);
    raise(SIGSTOP);
    work();
    atomic_store(&shared->is_over, 1);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_join(others[i], NULL) == 0, "thread %d", i);
    check_heap("after the steps");
    exit(0);
}

/* Waits until the child stops. Returns the signal to deliver to it. */
static int stop_of(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, __WALL) == child, "waitpid");
    CHECK(WIFSTOPPED(status), "the child has ended: status %#x", status);
    int signal = WSTOPSIG(status);
    return signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
}

static void step(pid_t child)
{
    unsigned long steps = 0, before = 0, calls = 0;
    for (int signal = 0; !atomic_load(&shared->is_over); steps++) {
        CHECK(ptrace(PTRACE_SINGLESTEP, child, 0, signal) == 0, "a step");
        signal = stop_of(child);
        if (atomic_load(&shared->calls) != calls) {
            calls = atomic_load(&shared->calls);
            before = steps;
        }
        CHECK(steps - before < STEPS_OF_A_CALL, "call %lu does not end", calls);
    }
    printf("%lu calls, %lu steps\n", calls, steps);
}

static int trace(void (*work)(void), int threads)
{
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
            _exit(77);
        be_stepped(work, threads);
    }
    int status;
    CHECK(waitpid(child, &status, __WALL) == child, "waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        puts("skipped: no process may be traced here");
        return 0;
    }
    CHECK(WIFSTOPPED(status), "the child stops first: status %#x", status);
    CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL) == 0, "its options");
    step(child);
    CHECK(ptrace(PTRACE_DETACH, child, 0, 0) == 0, "detach");
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: status %#x", status);
    return 0;
}

volatile int watched;

__attribute__((noinline)) void begin_to_watch(void)
{
    __asm__ volatile("");
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*work)(void);
        int threads;
    } parts[] = {{"small", small, 0},     {"large", large, 0}, {"growing", growing, 0},
                 {"aligned", aligned, 0}, {"beside", few, THREADS}};
    require_quarry();
    CHECK(count == 2, "one argument");
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "shared memory");
    if (strcmp(arguments[1], "watched") == 0) {
        begin_to_watch();
        few();
        watched = 1;
        return 0;
    }
    for (size_t i = 0; i < LENGTH(parts); i++) {
        if (strcmp(parts[i].name, arguments[1]) != 0)
            continue;
        return trace(parts[i].work, parts[i].threads);
    }
    CHECK(0, "no part %s", arguments[1]);
}
