/* Uses heaps of the program; the argument names the part. */
#include "check.h"
#include <pthread.h>
#include <quarry.h>
#include <sys/wait.h>

static quarry_heap *make(const char *name, size_t limit)
{
    quarry_heap *heap = quarry_heap_create(name, limit);
    CHECK(heap != NULL, "no heap %s", name);
    return heap;
}

static void use(void)
{
    quarry_heap *heap = make("use", 0);
    CHECK(quarry_heap_used(heap) == 0, "an empty heap uses %zu bytes", quarry_heap_used(heap));
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        size_t size = EDGE_SIZES[i];
        char *object = quarry_heap_malloc(heap, size);
        CHECK(object != NULL && (uintptr_t)object % 16 == 0, "%p of %zu", object, size);
        size_t usable = malloc_usable_size(object);
        CHECK(usable >= size && quarry_heap_used(heap) == usable, "%zu of %zu", usable, size);
        pattern_fill(object, size, size);
        object = realloc(object, size * 2);
        CHECK_PATTERN(object, size, size);
        CHECK(quarry_heap_used(heap) == malloc_usable_size(object), "it left its heap");
        object = realloc(object, size / 2 + 1);
        CHECK_PATTERN(object, size / 2 + 1, size);
        char *zeroed = quarry_heap_calloc(heap, size, 1);
        for (size_t at = 0; at < size; at++)
            CHECK(zeroed[at] == 0, "byte %zu of %zu", at, size);
        memset(zeroed, 1, size);
        free(zeroed);
        free(object);
        CHECK(quarry_heap_used(heap) == 0, "%zu bytes remain", quarry_heap_used(heap));
    }
    for (size_t align = 1; align <= 4 * MIB; align *= 2) {
        char *object = quarry_heap_aligned_alloc(heap, align, 100);
        CHECK((uintptr_t)object % align == 0, "%p is not aligned to %zu", object, align);
        memset(object, 1, 100);
    }
    quarry_heap_destroy(heap);
    check_heap("after the use");
}

/* realloc into a heap, from malloc and from another heap. */
static void moves(void)
{
    quarry_heap *one = make("one", 0), *other = make("other", 0);
    char *object = malloc(100);
    pattern_fill(object, 100, 1);
    object = quarry_heap_realloc(one, object, 200);
    CHECK_PATTERN(object, 100, 1);
    CHECK(quarry_heap_used(one) >= 200 && quarry_heap_used(other) == 0, "the wrong heap");
    object = quarry_heap_realloc(other, object, 100000);
    CHECK_PATTERN(object, 100, 1);
    CHECK(quarry_heap_used(one) == 0 && quarry_heap_used(other) >= 100000, "the wrong heap");
    CHECK(quarry_heap_realloc(other, object, 0) == NULL, "it is freed");
    CHECK(quarry_heap_used(other) == 0, "it is freed");
    object = quarry_heap_realloc(one, NULL, 10);
    CHECK(object != NULL && quarry_heap_used(one) == 16, "it is malloc");
    quarry_heap_destroy(one);
    quarry_heap_destroy(other);
    quarry_heap_destroy(NULL);
}

static void reset(void)
{
    quarry_heap *heap = make("reset", 0);
    uintptr_t first = 0;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 2000; i++) {
            char *object = quarry_heap_malloc(heap, 1 + (size_t)i % 400);
            memset(object, round, 1 + (size_t)i % 400);
            if (i == 0 && round == 1)
                first = (uintptr_t)object;
            if (i == 0 && round > 1)
                CHECK((uintptr_t)object == first, "%p after a reset", object);
        }
        CHECK(quarry_heap_malloc(heap, 3 * MIB) != NULL, "no mapping");
        quarry_heap_reset(heap);
        CHECK(quarry_heap_used(heap) == 0, "%zu bytes remain", quarry_heap_used(heap));
    }
    quarry_heap_stats stats;
    CHECK(quarry_heap_stat(heap, &stats, sizeof(stats)) == 0, "no counts");
    CHECK(stats.allocs == 50 * 2001 && stats.frees == stats.allocs, "%zu", stats.allocs);
    CHECK(stats.charged < MIB && stats.limit == SIZE_MAX, "%zu bytes of pages", stats.charged);
    check_heap("after the resets");
    quarry_heap_destroy(heap);
}

static struct {
    quarry_heap *heap;
    void *ballast;
    int told;
} pressed;

static void give_ballast(void *context, size_t bytes)
{
    CHECK(context == &pressed && bytes == 1000, "told of %zu", bytes);
    pressed.told++;
    CHECK(quarry_heap_malloc(pressed.heap, MIB) == NULL && errno == ENOMEM, "at the limit");
    free(pressed.ballast);
    pressed.ballast = NULL;
}

static void limit(void)
{
    quarry_heap *heap = pressed.heap = make("limit", MIB);
    pressed.ballast = quarry_heap_malloc(heap, MIB / 2);
    CHECK(pressed.ballast != NULL, "half of the limit");
    CHECK(quarry_heap_on_pressure(heap, give_ballast, &pressed) == 0, "a function");
    size_t given = 0;
    while (pressed.told < 2) {
        errno = 0;
        void *object = quarry_heap_malloc(heap, 1000);
        CHECK(object != NULL || (errno == ENOMEM && pressed.told == 2), "errno of a refusal");
        given += object != NULL;
    }
    CHECK(given * 1024 > MIB * 9 / 10, "%zu objects in 1 MiB", given);
    quarry_heap_stats stats;
    CHECK(quarry_heap_stat(heap, &stats, sizeof(stats)) == 0, "no counts");
    CHECK(stats.charged <= MIB && stats.limit == MIB, "%zu bytes", stats.charged);
    CHECK(stats.refused == 3, "%zu refused", stats.refused);
    CHECK(quarry_heap_on_pressure(heap, NULL, NULL) == 0, "none");
    CHECK(quarry_heap_set_limit(heap, 2 * MIB) == 0, "a limit");
    CHECK(quarry_heap_malloc(heap, 1000) != NULL, "below the new limit");
    void *plain = malloc(10 * MIB);
    CHECK(plain != NULL, "malloc has no part in the limit");
    check_heap("at the limit");
    quarry_heap_destroy(heap);
    free(plain);
}

static void errors(void)
{
    errno = 0;
    CHECK(quarry_heap_create(NULL, 0) == NULL && errno == EINVAL, "no name");
    errno = 0;
    CHECK(quarry_heap_create("\xff", 0) == NULL && errno == EINVAL, "not UTF-8");
    errno = 0;
    CHECK(quarry_heap_malloc(NULL, 1) == NULL && errno == EINVAL, "no heap");
    errno = 0;
    CHECK(quarry_heap_used(NULL) == 0 && errno == EINVAL, "no heap");
    CHECK(quarry_heap_stat(NULL, NULL, 0) == -1 && quarry_heap_set_limit(NULL, 1) == -1, "none");
    quarry_heap *heap = make("a name of more than thirty-two bytes, which is cut", 0);
    errno = 0;
    CHECK(quarry_heap_calloc(heap, SIZE_MAX / 2, 4) == NULL && errno == ENOMEM, "overflow");
    errno = 0;
    CHECK(quarry_heap_malloc(heap, opaque_size(SIZE_MAX / 2)) == NULL && errno == ENOMEM, "huge");
    errno = 0;
    CHECK(quarry_heap_aligned_alloc(heap, 48, 1) == NULL && errno == EINVAL, "no power of two");
    quarry_heap_destroy(heap);
}

static void disabled(void)
{
    errno = 0;
    CHECK(quarry_heap_create("none", 0) == NULL && errno == ENOTSUP, "the C library serves");
}

enum { MANY = 100000 };
static quarry_heap *heaps[MANY];

static void many(void)
{
    for (int i = 0; i < MANY; i++) {
        heaps[i] = make("one of many", 0);
        char *object = quarry_heap_malloc(heaps[i], 100);
        CHECK(object != NULL, "heap %d", i);
        *object = 1;
    }
    size_t bytes = resident_bytes() / MANY;
    CHECK(bytes < 6 * KIB, "%zu bytes a heap with one object", bytes);
    for (int i = 0; i < MANY; i++)
        quarry_heap_destroy(heaps[i]);
    check_heap("after many heaps");
}

enum { THREADS = 8, ROUNDS = 100, OBJECTS = 200 };
static quarry_heap *shared;

/* Each thread makes heaps, fills and destroys them, and uses the shared heap as well. */
static void *work(void *argument)
{
    uint64_t state = (uintptr_t)argument;
    void *of_shared[OBJECTS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        quarry_heap *heap = make("of a thread", 0);
        void *objects[OBJECTS];
        size_t sizes[OBJECTS];
        for (int i = 0; i < OBJECTS; i++) {
            sizes[i] = random_size(&state, 20000);
            objects[i] = quarry_heap_malloc(heap, sizes[i]);
            CHECK(objects[i] != NULL, "no object");
            pattern_fill(objects[i], sizes[i], sizes[i] + (uintptr_t)argument);
            free(of_shared[i]);
            of_shared[i] = quarry_heap_calloc(shared, 1, 1 + sizes[i] % 500);
        }
        for (int i = 0; i < OBJECTS; i++) {
            CHECK_PATTERN(objects[i], sizes[i], sizes[i] + (uintptr_t)argument);
            if (i % 2)
                free(objects[i]);
        }
        quarry_heap_destroy(heap);
    }
    for (int i = 0; i < OBJECTS; i++)
        free(of_shared[i]);
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];
    shared = make("shared", 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&all[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    CHECK(quarry_heap_used(shared) == 0, "%zu bytes remain", quarry_heap_used(shared));
    check_heap("after the threads");
    quarry_heap_destroy(shared);
}

static volatile int ends;

static void *churn(void *argument)
{
    uint64_t state = (uintptr_t)argument;
    void *objects[64] = {0};
    while (!ends) {
        size_t at = next_random(&state) % 64;
        free(objects[at]);
        objects[at] = quarry_heap_malloc(shared, random_size(&state, 2000));
    }
    return NULL;
}

/* While other threads use a heap, children are forked, which use and destroy it. */
static void forks(void)
{
    pthread_t all[4];
    shared = make("before the fork", 0);
    char *kept = quarry_heap_malloc(shared, 1000);
    pattern_fill(kept, 1000, 7);
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], NULL, churn, (void *)(i + 1)) == 0, "no thread");
    for (int round = 0; round < 25; round++) {
        pid_t child = fork();
        CHECK(child >= 0, "no child");
        if (child == 0) {
            CHECK_PATTERN(kept, 1000, 7);
            for (int i = 0; i < 1000; i++) {
                char *object = quarry_heap_malloc(shared, 1 + (size_t)i);
                memset(object, 1, 1 + (size_t)i);
                if (i % 3)
                    free(object);
            }
            check_heap("in a child");
            quarry_heap_reset(shared);
            CHECK(quarry_heap_used(shared) == 0, "%zu bytes", quarry_heap_used(shared));
            quarry_heap_destroy(shared);
            quarry_heap *own = make("of the child", 0);
            CHECK(quarry_heap_malloc(own, 100) != NULL, "no object");
            check_heap("after a heap in a child");
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ended: %d", status);
    }
    ends = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    CHECK_PATTERN(kept, 1000, 7);
    check_heap("after the forks");
    quarry_heap_destroy(shared);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"use", use},       {"moves", moves},       {"reset", reset}, {"limit", limit},
        {"errors", errors}, {"disabled", disabled}, {"many", many},   {"threads", threads},
        {"forks", forks},
    };
    for (size_t i = 0; count > 1 && i < LENGTH(parts); i++) {
        if (strcmp(arguments[1], parts[i].name) == 0) {
            parts[i].run();
            return 0;
        }
    }
    return 2;
}
