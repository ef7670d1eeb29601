/*
 * A program that limits its own address space after it has begun. The heap stays within the limit,
 * and leaves room for threads, mappings and shared objects.
 */
#include "deadline.h"
#include "memory.h"

#include <pthread.h>

enum { THREADS = 8, BLOCKS = 4096 };

static pthread_barrier_t all_run;

static size_t address_space(void)
{
    return (size_t)field_of("/proc/self/status", "VmSize:") * KIB;
}

static void *body(void *argument)
{
    pthread_barrier_wait(&all_run);
    void *block = malloc(100000);
    CHECK(block != NULL, "a thread gets no memory");
    memset(block, 1, 100000);
    free(block);
    return argument;
}

/* Everything else that a program does beside allocating must work. */
static void use_address_space(const char *when)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_run, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        int error = pthread_create(&threads[i], NULL, body, NULL);
        CHECK(error == 0, "%s: thread %d: %s", when, i, strerror(error));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    void *mapped = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED, "%s: mmap: %s", when, strerror(errno));
    munmap(mapped, 32 * MIB);
    void *object = dlopen("libm.so.6", RTLD_NOW);
    CHECK(object != NULL, "%s: dlopen: %s", when, dlerror());
    dlclose(object);
}

/* Allocates until there is no more; returns the bytes. */
static size_t fill(void **blocks, size_t size)
{
    size_t count = 0;
    while (count < BLOCKS && (blocks[count] = malloc(size)) != NULL) {
        memset(blocks[count], 7, PAGE);
        count++;
    }
    CHECK(count < BLOCKS, "%d blocks of %zu bytes fit", BLOCKS, size);
    CHECK(errno == ENOMEM, "malloc left errno %d", errno);
    return count * size;
}

static void drop(void **blocks)
{
    for (size_t i = 0; i < BLOCKS && blocks[i] != NULL; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    malloc_trim(0);
}

int main(void)
{
    static void *blocks[BLOCKS];
    static const size_t sizes[] = {1 * MIB, 300 * KIB, 5 * MIB, 40 * MIB};
    require_quarry();
    deadline(80, "allocating under a limit of address space");
    free(malloc(3 * MIB));
    const size_t room = 512 * MIB;
    struct rlimit limit = {.rlim_cur = address_space() + room, .rlim_max = RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    use_address_space("before the heap is full");
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        size_t bytes = fill(blocks, sizes[i]);
        CHECK(bytes <= room, "%zu bytes of %zu where %zu are allowed", bytes, sizes[i], room);
        CHECK(bytes >= room / 2, "only %zu bytes of %zu where %zu are allowed", bytes, sizes[i],
              room);
        drop(blocks);
        check_heap("after the heap was full");
        use_address_space("after the heap was full");
    }
    return 0;
}
