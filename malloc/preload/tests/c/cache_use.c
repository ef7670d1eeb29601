/*
 * Caches and pages of quarry.h as they should be used, and each of their errors. The argument says
 * which part runs.
 */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <quarry.h>
#include <sys/wait.h>

#define MOST 300

static unsigned made;

static void make(void *object)
{
    void *other = malloc(100);
    CHECK(other != NULL, "a constructor may allocate");
    memset(object, 7, 200);
    free(other);
    __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
}

static void make_some(void *object)
{
    memset(object, 9, 16);
}

static int holds(const void *bytes, int value, size_t count)
{
    const unsigned char *byte = bytes;
    while (count > 0 && *byte == value) {
        byte++;
        count--;
    }
    return count == 0;
}

static quarry_cache *create(const char *name, size_t size, size_t align)
{
    quarry_cache *cache = quarry_cache_create(name, size, align, NULL, QUARRY_NO_MERGE);
    CHECK(cache != NULL, "no cache %s", name);
    return cache;
}

static void use(void)
{
    void *objects[MOST];
    for (size_t align = 0; align <= 4096; align = align ? 4 * align : 64) {
        quarry_cache *cache = create("use", 200, align);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < MOST; i++) {
                objects[i] = quarry_cache_alloc(cache, i % 2 ? QUARRY_ZERO : 0);
                CHECK(objects[i] != NULL, "object %d", i);
                CHECK((size_t)objects[i] % (align ? align : 16) == 0, "aligned to %zu", align);
                CHECK(i % 2 == 0 || holds(objects[i], 0, 200), "no zeroes");
                memset(objects[i], i, 200);
            }
            for (int i = 0; i < MOST; i++) {
                CHECK(holds(objects[i], (unsigned char)i, 200), "object %d has changed", i);
                quarry_cache_free(cache, objects[i]);
            }
        }
        CHECK(quarry_cache_alloc_bulk(cache, QUARRY_ZERO, MOST, objects) == MOST, "no bulk");
        for (int i = 0; i < MOST; i++) {
            CHECK(holds(objects[i], 0, 200), "no zeroes in bulk");
            memset(objects[i], 1, 200);
        }
        quarry_cache_free_bulk(cache, MOST, objects);
        quarry_cache_free(cache, NULL);
        CHECK(quarry_cache_shrink(cache) == 0, "no shrink");
        CHECK(quarry_cache_destroy(cache) == 0, "objects are left");
    }
}

static void constructor(void)
{
    quarry_cache *cache = quarry_cache_create("made", 200, 64, make, QUARRY_HWCACHE_ALIGN);
    CHECK(cache != NULL, "no cache");
    void *objects[MOST];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < MOST; i++) {
            objects[i] = quarry_cache_alloc(cache, 0);
            CHECK(holds(objects[i], 7, 200), "object %d is not made, or not as it was left", i);
            memset(objects[i], i, 200);
        }
        for (int i = 0; i < MOST; i++) {
            memset(objects[i], 7, 200);
            quarry_cache_free(cache, objects[i]);
        }
    }
    CHECK(made >= MOST, "%u objects were made", made);
    printf("made %u\n", made);
    errno = 0;
    CHECK(quarry_cache_alloc(cache, QUARRY_ZERO) == NULL && errno == EINVAL, "made and zero");
    CHECK(quarry_cache_destroy(cache) == 0, "objects are left");
}

static void reserve(void)
{
    quarry_cache *cache = create("reserve", 5000, 0);
    quarry_reserve *reserve = quarry_cache_prefill(cache, 50);
    CHECK(reserve != NULL, "no reserve");
    void *objects[50];
    /* No memory is left, but the reserve still has its objects. */
    CHECK(quarry_set_limit(1 << 20) == 0, "no limit");
    while (malloc(5000) != NULL)
        continue;
    for (int i = 0; i < 50; i++) {
        objects[i] = quarry_reserve_alloc(reserve);
        CHECK(objects[i] != NULL, "object %d of the reserve", i);
        memset(objects[i], i, 5000);
    }
    errno = 0;
    CHECK(quarry_reserve_alloc(reserve) == NULL && errno == ENOENT, "an empty reserve gives");
    quarry_reserve_free(reserve);
    errno = 0;
    CHECK(quarry_cache_prefill(cache, 4000) == NULL && errno == ENOMEM, "beyond the limit");
    CHECK(quarry_set_limit(SIZE_MAX) == 0, "no limit");
    reserve = quarry_cache_prefill(cache, 50);
    CHECK(reserve != NULL && quarry_reserve_alloc(reserve) != NULL, "no reserve");
    quarry_reserve_free(reserve);
    quarry_reserve_free(quarry_cache_prefill(cache, 0));
    quarry_reserve_free(NULL);
    quarry_cache_free_bulk(cache, 50, objects);
    CHECK(quarry_cache_destroy(cache) == 1, "one object of the second reserve is in use");
    /* An empty reserve may be freed after its cache was destroyed. */
    cache = create("gone", 100, 0);
    reserve = quarry_cache_prefill(cache, 1);
    quarry_cache_free(cache, quarry_reserve_alloc(reserve));
    CHECK(quarry_cache_destroy(cache) == 0, "nothing is in use");
    quarry_reserve_free(reserve);
}

/* Some policies let caches share their slabs, and each still gets what it asks for. */
static void shared_slabs(void)
{
    quarry_cache *smaller = quarry_cache_create("smaller", 81, 0, NULL, 0);
    quarry_cache *larger = quarry_cache_create("larger", 96, 0, NULL, 0);
    CHECK(smaller != NULL && larger != NULL, "no caches");
    for (int round = 0; round < 2; round++) {
        void *objects[MOST];
        for (int i = 0; i < MOST; i++) {
            objects[i] = quarry_cache_alloc(larger, QUARRY_ZERO);
            CHECK(holds(objects[i], 0, 96), "object %d is not zero", i);
            memset(objects[i], 1, 96);
        }
        quarry_cache_free_bulk(larger, MOST, objects);
        CHECK(quarry_cache_alloc_bulk(larger, QUARRY_ZERO, MOST, objects) == MOST, "no bulk");
        for (int i = 0; i < MOST; i++) {
            CHECK(holds(objects[i], 0, 96), "object %d of many is not zero", i);
            memset(objects[i], 1, 96);
        }
        quarry_cache_free_bulk(larger, MOST, objects);
    }
    CHECK(quarry_cache_destroy(smaller) == 0 && quarry_cache_destroy(larger) == 0, "in use");
}

#define FAILS(error, ...) \
    do { \
        errno = 0; \
        CHECK((__VA_ARGS__) && errno == (error), "no such error"); \
    } while (0)

static void errors(void)
{
    void *object;
    FAILS(EINVAL, quarry_cache_create(NULL, 8, 0, NULL, 0) == NULL);
    FAILS(EINVAL, quarry_cache_create("\xff", 8, 0, NULL, 0) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", 0, 0, NULL, 0) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", 8, 24, NULL, 0) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", 8, 3, NULL, QUARRY_HWCACHE_ALIGN) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", 200, 48, NULL, QUARRY_HWCACHE_ALIGN) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", SIZE_MAX, 0, NULL, 0) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", SIZE_MAX, 4096, make, 3) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", 8, (size_t)1 << 63, make, 0) == NULL);
    FAILS(EINVAL, quarry_cache_create("bad", 8, 0, NULL, 4) == NULL);
    quarry_cache *cache = create("errors", 100, 0);
    FAILS(EINVAL, quarry_cache_alloc(cache, 4) == NULL);
    FAILS(EINVAL, quarry_cache_alloc_bulk(cache, 4, 1, &object) == 0);
    FAILS(EINVAL, quarry_cache_alloc_bulk(cache, 0, 1, NULL) == 0);
    FAILS(EINVAL, quarry_cache_prefill(cache, 1000000) == NULL);
    CHECK(quarry_cache_destroy(cache) == 0, "nothing is in use");
    /* Another cache has its number now, but the old handle still stands for no cache. */
    quarry_cache *other = create("other", 200, 0);
    CHECK(other != cache, "a handle is used again");
    quarry_cache *none[] = {NULL, cache, (quarry_cache *)&cache, (quarry_cache *)1,
                            (quarry_cache *)(size_t)-1};
    for (size_t i = 0; i < LENGTH(none); i++) {
        FAILS(EINVAL, quarry_cache_alloc(none[i], 0) == NULL);
        FAILS(EINVAL, quarry_cache_alloc_bulk(none[i], 0, 1, &object) == 0);
        FAILS(EINVAL, quarry_cache_prefill(none[i], 1) == NULL);
        FAILS(EINVAL, quarry_cache_shrink(none[i]) == -1);
        FAILS(EINVAL, quarry_cache_destroy(none[i]) == -1);
        quarry_cache_free(none[i], NULL);
        quarry_cache_free_bulk(none[i], 0, NULL);
    }
    FAILS(EINVAL, quarry_pages_alloc(10, 0) == NULL);
    FAILS(EINVAL, quarry_pages_alloc(0, 4) == NULL);
    quarry_pages_free(NULL, 0);
    CHECK(quarry_cache_destroy(other) == 0, "nothing is in use");
}

/* Far more caches than have a place on each CPU, of many sizes; each is a cache like the first. */
static void many(void)
{
    enum { CACHES = 1000, EACH = 5 };
    static quarry_cache *caches[CACHES];
    static void *objects[CACHES][EACH];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < CACHES; i++) {
            size_t size = 16 + i * 7;
            caches[i] = quarry_cache_create("many", size, i % 3 ? 0 : 128, i % 7 ? NULL : make_some,
                                            QUARRY_NO_MERGE);
            CHECK(caches[i] != NULL, "cache %zu", i);
            for (int n = 0; n < EACH; n++) {
                char *object = objects[i][n] = quarry_cache_alloc(caches[i], 0);
                CHECK(object != NULL && (size_t)object % (i % 3 ? 16 : 128) == 0, "%p", object);
                CHECK(i % 7 || holds(object, 9, 16), "object %d of cache %zu is not made", n, i);
                memset(object, (int)i, size);
            }
        }
        CHECK(quarry_validate() == 0, "an invariant is broken");
        for (size_t i = 0; i < CACHES; i++) {
            for (int n = 0; n < EACH; n++)
                CHECK(holds(objects[i][n], (unsigned char)i, 16 + i * 7), "object of %zu", i);
            CHECK(quarry_cache_destroy(caches[i]) == EACH, "objects of cache %zu", i);
            for (int n = 0; n < EACH; n++)
                memset(objects[i][n], 9, 16);
            CHECK(malloc_usable_size(objects[i][0]) >= 16 + i * 7, "bytes of cache %zu", i);
            if (i % 2)
                free(objects[i][0]);
            else
                quarry_cache_free(caches[i], objects[i][0]);
            quarry_cache_free_bulk(caches[i], EACH - 1, objects[i] + 1);
            quarry_reserve *reserve = quarry_cache_prefill(caches[i], 20);
            void *taken = quarry_reserve_alloc(reserve);
            CHECK(taken != NULL, "nothing in the reserve of cache %zu", i);
            quarry_reserve_free(reserve);
            memset(taken, 9, 16);
            quarry_cache_free(caches[i], taken);
            CHECK(quarry_cache_shrink(caches[i]) == 0, "no shrink");
            CHECK(quarry_cache_destroy(caches[i]) == 0, "objects are left in cache %zu", i);
            FAILS(EINVAL, quarry_cache_alloc(caches[i], 0) == NULL);
        }
    }
    /* Only memory bounds their number. */
    CHECK(quarry_set_limit(48 * MIB) == 0, "no limit");
    size_t count = 0;
    errno = 0;
    quarry_cache *cache;
    while ((cache = quarry_cache_create("more", 64, 0, NULL, QUARRY_NO_MERGE)) != NULL
           && quarry_cache_alloc(cache, 0) != NULL)
        count++;
    CHECK(errno == ENOMEM && count > CACHES, "%zu caches", count);
}

static void pages(void)
{
    for (unsigned order = 0; order <= 9; order++) {
        size_t bytes = PAGE << order;
        void *blocks[20];
        for (size_t i = 0; i < LENGTH(blocks); i++) {
            blocks[i] = quarry_pages_alloc(order, i % 2 ? QUARRY_ZERO : 0);
            CHECK(blocks[i] != NULL && (size_t)blocks[i] % bytes == 0, "order %u", order);
            CHECK(i % 2 == 0 || holds(blocks[i], 0, bytes), "no zeroes");
            memset(blocks[i], (int)i + 1, bytes);
        }
        for (size_t i = 0; i < LENGTH(blocks); i++) {
            CHECK(holds(blocks[i], (int)i + 1, bytes), "block %zu has changed", i);
            CHECK(malloc_usable_size(blocks[i]) == bytes, "a block of the heap");
            if (i % 3 == 0)
                free(blocks[i]);
            else
                quarry_pages_free(blocks[i], order);
        }
        /* A block that was just freed can be had without growth of the heap. */
        void *block = quarry_pages_alloc(order, QUARRY_ATOMIC | QUARRY_ZERO);
        CHECK(block != NULL && holds(block, 0, bytes), "nothing of order %u at once", order);
        quarry_pages_free(block, order);
    }
    CHECK(quarry_set_limit(16 * MIB) == 0, "no limit");
    size_t count = 0;
    errno = 0;
    while (quarry_pages_alloc(9, QUARRY_ATOMIC) != NULL)
        count++;
    CHECK(errno == ENOMEM && count <= 8, "%zu blocks within the limit", count);
}

static quarry_cache *shared;

static void *work(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;
    void *objects[64] = {0};
    quarry_cache *own = NULL;
    for (int i = 0; i < 20000; i++) {
        unsigned place = (state = state * 1664525 + 1013904223) >> 26;
        if (objects[place] != NULL) {
            CHECK(holds(objects[place], (int)place, 96), "an object has changed");
            quarry_cache_free(shared, objects[place]);
            objects[place] = NULL;
        } else {
            objects[place] = quarry_cache_alloc(shared, 0);
            CHECK(objects[place] != NULL, "no object");
            memset(objects[place], (int)place, 96);
        }
        if (i % 500 == 0) {
            /* The thread has its own cache while others work and print statistics. */
            own = create("own", 48 + (state >> 20), 0);
            void *some[100];
            CHECK(quarry_cache_alloc_bulk(own, 0, 100, some) == 100, "no objects");
            quarry_cache_free_bulk(own, 100, some);
            CHECK(quarry_cache_destroy(own) == 0, "objects are left");
        }
        if (i % 1000 == 0)
            malloc_trim(0);
    }
    for (size_t place = 0; place < LENGTH(objects); place++)
        quarry_cache_free(shared, objects[place]);
    return NULL;
}

static void threads(void)
{
    shared = create("shared", 96, 0);
    pthread_t workers[6];
    for (size_t i = 0; i < LENGTH(workers); i++)
        CHECK(pthread_create(&workers[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    int sink = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 50; i++) {
        quarry_stats_print(sink);
        mallinfo2();
    }
    for (size_t i = 0; i < LENGTH(workers); i++)
        pthread_join(workers[i], NULL);
    CHECK(quarry_validate() == 0, "an invariant is broken");
    /* The objects that other CPUs hold go back as well. */
    CHECK(quarry_cache_destroy(shared) == 0, "objects are left");
}

static void forks(void)
{
    shared = create("shared", 96, 0);
    pthread_t workers[3];
    for (size_t i = 0; i < LENGTH(workers); i++)
        CHECK(pthread_create(&workers[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "no child");
        if (child == 0) {
            quarry_cache *cache = create("child", 500, 0);
            void *object = quarry_cache_alloc(cache, 0);
            CHECK(object != NULL, "no object in the child");
            quarry_cache_free(shared, quarry_cache_alloc(shared, 0));
            quarry_pages_free(quarry_pages_alloc(2, 0), 2);
            quarry_cache_free(cache, object);
            CHECK(quarry_cache_destroy(cache) == 0, "objects are left in the child");
            _exit(quarry_validate() == 0 ? 0 : 3);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
    }
    for (size_t i = 0; i < LENGTH(workers); i++)
        pthread_join(workers[i], NULL);
    CHECK(quarry_cache_destroy(shared) == 0, "objects are left");
}

static void disabled(void)
{
    FAILS(ENOTSUP, quarry_cache_create("none", 8, 0, NULL, 0) == NULL);
    FAILS(ENOTSUP, quarry_pages_alloc(0, 0) == NULL);
    FAILS(ENOTSUP, quarry_pages_alloc(0, QUARRY_ATOMIC) == NULL);
    FAILS(EINVAL, quarry_cache_alloc(NULL, 0) == NULL);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"use", use},         {"constructor", constructor}, {"reserve", reserve},
                 {"errors", errors},   {"pages", pages},             {"threads", threads},
                 {"forks", forks},     {"disabled", disabled},       {"shared", shared_slabs},
                 {"many", many}};
    for (size_t i = 0; count > 1 && i < LENGTH(parts); i++) {
        if (strcmp(arguments[1], parts[i].name) == 0) {
            parts[i].run();
            CHECK(quarry_validate() == 0, "an invariant is broken");
            puts("done");
            return 0;
        }
    }
    return 2;
}
