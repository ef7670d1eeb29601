/*
 * Measures how much stack calls into the allocator take. The work runs on a stack that is filled
 * with a pattern, and the deepest byte that has changed shows how far the work came.
 *
 *   stack_depth all LIMIT      demands that no kind of work takes more than LIMIT bytes
 *   stack_depth thread LIMIT   the same, on a thread
 *   stack_depth ENTRY LIMIT    the same of the process's first call, which is one of ENTRY
 *   stack_depth on BYTES       demands that the work gets by on a coroutine of BYTES
 *   stack_depth handler BYTES  the same of a handler of a signal on an alternate stack of BYTES
 *
 * Nothing here calls the allocator before the work does: its first call is the process's first.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAINTED = 64 * 1024, OBJECTS = 6000, PATTERN = 0xa5 };

static void *objects[OBJECTS];
static ucontext_t outside, inside;
static void (*work)(void);
static const char *first_entry;
/* The stack pointer at which the work begins: bytes above it are this program's. */
static char *top;

#if defined(__x86_64__)
#define HERE() __asm__ volatile("mov %%rsp, %0" : "=r"(top))
#elif defined(__aarch64__)
#define HERE() __asm__ volatile("mov %0, sp" : "=r"(top))
#endif

/* Enough that arrays, barns and slabs of many sizes run empty and full, and zones grow. */
static void small_sizes(void)
{
    HERE();
    uint64_t seed = 1;
    for (int round = 0; round < 4; round++) {
        size_t limit = (size_t)64 << (4 * round);
        for (int i = 0; i < OBJECTS; i++)
            objects[i] = malloc(random_size(&seed, limit < 4096 ? limit : 4096));
        for (int i = 0; i < OBJECTS; i += 2)
            free(objects[i]);
        for (int i = 1; i < OBJECTS; i += 2)
            free(objects[i]);
    }
}

static void one_size(void)
{
    HERE();
    for (size_t size = 16; size <= 1024; size *= 4) {
        for (int i = 0; i < OBJECTS; i++)
            objects[i] = malloc(size);
        for (int i = 0; i < OBJECTS; i++)
            free(objects[i]);
    }
}

static void blocks(void)
{
    HERE();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 200; i++)
            objects[i] = malloc(((size_t)i % 60 + 1) * 5000);
        for (int i = 0; i < 200; i++)
            free(objects[i]);
    }
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        objects[0] = calloc(1, EDGE_SIZES[i]);
        objects[1] = memalign(4096, EDGE_SIZES[i]);
        free(objects[0]);
        free(objects[1]);
    }
}

/* Enough for several looks at the limits, and to have 32 MiB to give back. */
static void mappings(void)
{
    HERE();
    for (int i = 0; i < 48; i++)
        objects[i] = memset(malloc(2 * MIB), 1, 2 * MIB);
    for (int i = 0; i < 48; i++)
        free(objects[i]);
}

static void reallocations(void)
{
    HERE();
    void *object = NULL, *other = NULL;
    for (size_t size = 8; size < 32 * MIB; size += size / 2) {
        object = realloc(object, size);
        other = reallocarray(other, 1, size + 24);
    }
    object = realloc(object, 100);
    free(object);
    free(other);
}

static void queries(void)
{
    HERE();
    void *object = NULL;
    CHECK(posix_memalign(&object, 64, 500) == 0, "posix_memalign");
    (void)malloc_usable_size(object);
    free(object);
    free(aligned_alloc(8192, 8192));
    free(valloc(100));
    (void)mallinfo2();
    malloc_trim(0);
}

static void statistics(void)
{
    HERE();
    malloc_stats();
}

/* More than a hundred milliseconds of slow paths: publications are due. */
static void publications(void)
{
    HERE();
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        objects[0] = malloc(MIB / 2);
        objects[1] = malloc(2 * MIB);
        free(objects[0]);
        free(objects[1]);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 300);
}

/* Requests that fail at a limit, after the allocator has tried to empty other CPUs' slots. */
static void failures(void)
{
    HERE();
    int held = 0;
    while (held < OBJECTS && (objects[held] = malloc(MIB / 4)) != NULL)
        held++;
    (void)malloc(opaque_size(SIZE_MAX / 4));
    while (held > 0)
        free(objects[--held]);
    while (held < OBJECTS && (objects[held] = malloc(2 * MIB)) != NULL)
        held++;
    while (held > 0)
        free(objects[--held]);
}

static void *allocate_on_thread(void *unused)
{
    for (int i = 0; i < OBJECTS / 2; i++)
        objects[i] = malloc((size_t)i % 300 + 1);
    return unused;
}

/* Frees objects that another thread has allocated. */
static void others_objects(void)
{
    HERE();
    for (int i = 0; i < OBJECTS / 2; i++)
        free(objects[i]);
}

static void first(void)
{
    HERE();
    void *object = NULL;
    if (strcmp(first_entry, "malloc") == 0)
        object = malloc(100);
    else if (strcmp(first_entry, "calloc") == 0)
        object = calloc(1, 100);
    else if (strcmp(first_entry, "realloc") == 0)
        object = realloc(NULL, 100);
    else if (strcmp(first_entry, "memalign") == 0)
        object = memalign(64, 100);
    else if (strcmp(first_entry, "mapping") == 0)
        object = malloc(8 * MIB);
    else if (strcmp(first_entry, "trim") == 0)
        malloc_trim(0);
    else if (strcmp(first_entry, "info") == 0)
        (void)mallinfo2();
    free(object);
}

static void everything(void)
{
    HERE();
    small_sizes();
    one_size();
    blocks();
    mappings();
    reallocations();
    queries();
    small_sizes();
}

__attribute__((noinline)) static void enter(void)
{
    work();
    swapcontext(&inside, &outside);
}

/* Memory with a page below it that may not be touched. */
static char *guarded(size_t bytes)
{
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    char *room = mmap(NULL, PAGE + whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED, "mmap");
    CHECK(mprotect(room + PAGE, whole, PROT_READ | PROT_WRITE) == 0, "mprotect");
    return room + PAGE + whole - bytes;
}

static void run_on(char *stack, size_t bytes, void (*what)(void))
{
    work = what;
    CHECK(getcontext(&inside) == 0, "getcontext");
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = bytes;
    inside.uc_link = NULL;
    makecontext(&inside, enter, 0);
    CHECK(swapcontext(&outside, &inside) == 0, "swapcontext");
}

/* Bytes that the calls of `what` take of a stack. */
static size_t depth_of(void (*what)(void))
{
    static char *stack;
    if (stack == NULL)
        stack = guarded(PAINTED);
    memset(stack, PATTERN, PAINTED);
    run_on(stack, PAINTED, what);
    size_t left = 0;
    while (left < PAINTED && (unsigned char)stack[left] == PATTERN)
        left++;
    return (size_t)(top - (stack + left));
}

static const struct {
    const char *name;
    void (*what)(void);
} WORK[] = {
    {"small-sizes", small_sizes},
    {"one-size", one_size},
    {"blocks", blocks},
    {"mappings", mappings},
    {"reallocations", reallocations},
    {"queries", queries},
    {"publications", publications},
    {"others-objects", others_objects},
    {"small-sizes again", small_sizes},
    {"failures", failures},
    {"statistics", statistics},
};

static int demand(const char *name, size_t taken, size_t limit)
{
    char text[128];
    int used = snprintf(text, sizeof(text), "%s: %zu bytes%s\n", name, taken,
                        taken > limit ? ", too many" : "");
    CHECK(write(1, text, (size_t)used) == used, "write");
    return taken > limit;
}

static size_t limit;

static void *measure_all(void *unused)
{
    int broken = 0;
    for (size_t i = 0; i < LENGTH(WORK); i++) {
        if (strcmp(WORK[i].name, "failures") == 0 && getenv("QUARRY_LIMIT") == NULL)
            continue;
        if (WORK[i].what == others_objects) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, allocate_on_thread, NULL) == 0, "pthread_create");
            pthread_join(thread, NULL);
        }
        broken += demand(WORK[i].name, depth_of(WORK[i].what), limit);
    }
    CHECK(broken == 0, "%d kinds of work take more than %zu bytes of stack", broken, limit);
    return unused;
}

static void on_signal(int number)
{
    (void)number;
    everything();
}

static void use_handler(size_t bytes)
{
    stack_t stack = {.ss_sp = guarded(bytes), .ss_size = bytes};
    CHECK(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    raise(SIGUSR1);
}

int main(int count, char **arguments)
{
    CHECK(count == 3, "stack_depth WORK LIMIT");
    limit = strtoul(arguments[2], NULL, 10);
    if (strcmp(arguments[1], "on") == 0) {
        run_on(guarded(limit), limit, everything);
    } else if (strcmp(arguments[1], "handler") == 0) {
        use_handler(limit);
    } else if (strcmp(arguments[1], "all") == 0) {
        measure_all(NULL);
    } else if (strcmp(arguments[1], "thread") == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, measure_all, NULL) == 0, "pthread_create");
        CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    } else {
        first_entry = arguments[1];
        size_t taken = depth_of(first);
        CHECK(!demand(first_entry, taken, limit), "the first call takes %zu bytes", taken);
    }
    require_quarry();
    return 0;
}
