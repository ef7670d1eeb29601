/* Threads inside groups; the argument names the part. */
#include "check.h"
#include <pthread.h>
#include <quarry.h>
#include <sys/wait.h>

static int make(int parent, const char *name, size_t max)
{
    quarry_group_limits limits = {0, SIZE_MAX, max, SIZE_MAX, 0};
    int group = quarry_group_create(parent, name, &limits);
    CHECK(group > 0, "no group %s", name);
    return group;
}

static int enter(int group)
{
    int before = quarry_group_enter(group);
    CHECK(before >= 0, "cannot enter %d", group);
    return before;
}

static void leave(int before)
{
    CHECK(quarry_group_leave(before) == 0, "cannot leave to %d", before);
}

static quarry_group_stats stat_of(int group)
{
    quarry_group_stats stats;
    CHECK(quarry_group_stat(group, &stats, sizeof(stats)) == 0, "no group %d", group);
    return stats;
}

static size_t in_use(int group)
{
    return stat_of(group).malloc_in_use;
}

static void end(int group)
{
    CHECK(quarry_group_destroy(group) == 0, "group %d stays", group);
}

/* For each group: used = cached + malloc + heaps + the used of its parts. */
static void check_tree(void)
{
    for (int group = 0; (group = quarry_group_next(group)) != 0;) {
        quarry_group_stats stats = stat_of(group);
        size_t sum = stats.cached + stats.malloc_pages + stats.heaps;
        for (int part = 0; (part = quarry_group_next(part)) != 0;)
            sum += stat_of(part).parent == (size_t)group ? stat_of(part).used : 0;
        CHECK(stats.used == sum, "group %d: %zu, and %zu in parts", group, stats.used, sum);
        size_t own = stats.cached + stats.malloc_pages + stats.heaps;
        CHECK(stats.malloc_in_use <= stats.malloc_pages && stats.in_use + stats.parked <= own,
              "%zu and %zu parked in %zu bytes", stats.in_use, stats.parked, own);
    }
    check_heap("with groups");
}

/* Each function charges what it hands out, and only inside. */
static void functions(void)
{
    enum { PAST_CACHES = 1 << 8 };
    void *(*mallocx)(size_t, int) = (void *(*)(size_t, int))dlsym(RTLD_DEFAULT, "mallocx");
    int group = make(0, "functions", SIZE_MAX);
    char *outside = malloc(100);
    CHECK(in_use(group) == 0, "nothing was allocated inside");
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        size_t size = EDGE_SIZES[i] + 1;
        void *aligned = NULL;
        int before = enter(group);
        char *objects[] = {malloc(size), calloc(1, size), realloc(NULL, size),
                           aligned_alloc(64, size), memalign(256, size), valloc(size),
                           pvalloc(size), reallocarray(NULL, size, 1), mallocx(size, 0),
                           mallocx(size, PAST_CACHES), aligned};
        CHECK(posix_memalign(&aligned, 1024, size) == 0, "no memory");
        objects[LENGTH(objects) - 1] = aligned;
        leave(before);
        size_t usable = 0;
        for (size_t at = 0; at < LENGTH(objects); at++) {
            CHECK(objects[at] != NULL, "no %zu of %zu bytes", at, size);
            for (size_t byte = 0; at == 1 && byte < size; byte++)
                CHECK(objects[at][byte] == 0, "byte %zu of %zu", byte, size);
            pattern_fill(objects[at], size, (unsigned)at);
            usable += malloc_usable_size(objects[at]);
        }
        CHECK(in_use(group) == usable, "%zu of %zu bytes of %zu", in_use(group), usable, size);
        for (size_t at = 0; at < LENGTH(objects); at++) {
            CHECK_PATTERN(objects[at], size, (unsigned)at);
            free(objects[at]);
        }
        CHECK(in_use(group) == 0, "%zu bytes remain", in_use(group));
    }
    enter(group);
    outside = realloc(outside, 100000);
    CHECK(in_use(group) == 0, "realloc leaves an object where it is charged");
    char *inside = malloc(50);
    leave(0);
    inside = realloc(inside, 100000);
    CHECK(in_use(group) >= 100000, "and so it does outside");
    free(inside);
    free(outside);
    check_tree();
    end(group);
}

/* At its limit a group gets NULL with ENOMEM; others, and those outside, get memory. */
static void limit(void)
{
    int tenant = make(0, "tenant", 4 * MIB), neighbour = make(0, "neighbour", SIZE_MAX);
    int query = make(tenant, "query", SIZE_MAX);
    static const size_t SIZES[] = {16, 100, 1000, 5000, 40000, 300000, 2 * MIB};
    for (size_t i = 0; i < LENGTH(SIZES); i++) {
        enter(query);
        char *last = NULL;
        for (;;) {
            errno = 0;
            char **object = malloc(SIZES[i]);
            if (object == NULL)
                break;
            *object = last;
            last = (char *)object;
        }
        CHECK(errno == ENOMEM, "at the limit");
        /* The limit was reached by objects, not by what lies between. */
        CHECK(in_use(query) >= (SIZES[i] > MIB ? 2 * MIB : 3 * MIB), "%zu", in_use(query));
        CHECK(calloc(1, 5 * MIB) == NULL && realloc(NULL, 5 * MIB) == NULL, "beyond the limit");
        CHECK(aligned_alloc(4096, 5 * MIB) == NULL && errno == ENOMEM, "beyond the limit");
        char *grown = realloc(last, 5 * MIB);
        CHECK(grown == NULL, "an object cannot grow beyond the limit");
        int before = enter(neighbour);
        CHECK(before == query, "%d", before);
        free(memset(malloc(8 * MIB), 1, 8 * MIB));
        enter(0);
        free(memset(malloc(8 * MIB), 1, 8 * MIB));
        CHECK(stat_of(tenant).used <= 4 * MIB && stat_of(query).used == stat_of(tenant).used,
              "%zu", stat_of(tenant).used);
        CHECK(stat_of(tenant).refusals > 0, "the refusals are counted");
        while (last != NULL) {
            char *next = *(char **)last;
            free(last);
            last = next;
        }
        CHECK(in_use(query) == 0, "%zu bytes remain", in_use(query));
    }
    check_tree();
    CHECK(quarry_group_destroy(tenant) == -1 && errno == EBUSY, "a group is a part of it");
    end(query);
    end(tenant);
    end(neighbour);
}

static char *spare;
static volatile int told;

static void give_spare(void *context, size_t bytes)
{
    CHECK(context == &spare && bytes == 2 * MIB, "%p, %zu", context, bytes);
    told++;
    CHECK(malloc(3 * MIB) == NULL, "the function's own request meets the limit");
    free(spare);
    spare = NULL;
}

static void pressure(void)
{
    int group = make(0, "pressure", 3 * MIB), part = make(group, "part", SIZE_MAX);
    CHECK(quarry_group_on_pressure(group, give_spare, &spare) == 0, "no function");
    enter(part);
    spare = malloc(2 * MIB);
    char *next = malloc(2 * MIB);
    CHECK(next != NULL && told == 1, "told %d times", told);
    CHECK(malloc(2 * MIB) == NULL && told == 2, "told %d times", told);
    CHECK(quarry_group_on_pressure(group, NULL, NULL) == 0, "no function");
    CHECK(malloc(2 * MIB) == NULL && told == 2, "told %d times", told);
    leave(0);
    free(next);
    check_tree();
    end(part);
    end(group);
}

/* A group leaves objects, which stay usable and are charged to the group above. */
static void rest(void)
{
    int above = make(0, "above", SIZE_MAX), group = make(above, "group", SIZE_MAX);
    char *objects[600];
    enter(group);
    for (size_t i = 0; i < LENGTH(objects); i++) {
        objects[i] = malloc(1 + i * 37 % 3000 + i % 7 / 6 * 60000);
        pattern_fill(objects[i], 1, (unsigned)i);
    }
    objects[0] = realloc(objects[0], 3 * MIB);
    CHECK(quarry_group_destroy(group) == -1 && errno == EBUSY, "a thread is inside");
    leave(0);
    end(group);
    CHECK(stat_of(above).heaps == stat_of(above).used && stat_of(above).used > 3 * MIB,
          "%zu", stat_of(above).used);
    check_tree();
    end(above);
    for (size_t i = 0; i < LENGTH(objects); i++) {
        CHECK_PATTERN(objects[i], 1, (unsigned)i);
        if (i % 3 == 0)
            objects[i] = realloc(objects[i], 5000);
        free(objects[i]);
    }
    check_tree();
    CHECK(quarry_group_next(0) == 0, "no group is left");
    int again = make(0, "again", MIB);
    enter(again);
    free(malloc(100));
    leave(0);
    end(again);
}

static void *spend(void *group)
{
    enter(*(int *)group);
    char *kept = NULL;
    for (int i = 0; i < 20000; i++) {
        char *object = malloc(8 + (size_t)i % 500);
        memset(object, 1, 8 + (size_t)i % 500);
        if (i % 100 == 0) {
            *(char **)object = kept;
            kept = object;
        } else {
            free(object);
        }
    }
    return kept; /* It ends inside. */
}

/* Threads inside their groups, whose objects another thread frees. */
static void threads(void)
{
    enum { GROUPS = 3, EACH = 3 };
    int groups[GROUPS];
    pthread_t all[GROUPS * EACH];
    for (int i = 0; i < GROUPS; i++)
        groups[i] = make(0, "threads", SIZE_MAX);
    for (int i = 0; i < GROUPS * EACH; i++)
        CHECK(pthread_create(&all[i], NULL, spend, &groups[i % GROUPS]) == 0, "no thread");
    for (int i = 0; i < GROUPS * EACH; i++) {
        void *kept;
        CHECK(pthread_join(all[i], &kept) == 0, "no thread");
        while (kept != NULL) {
            void *next = *(void **)kept;
            free(kept);
            kept = next;
        }
    }
    check_tree();
    for (int i = 0; i < GROUPS; i++) {
        CHECK(in_use(groups[i]) < 4096, "%zu bytes remain", in_use(groups[i]));
        end(groups[i]); /* Threads that have ended are not inside. */
    }
}

static pthread_barrier_t entered, forked;

static void *stay(void *group)
{
    enter(*(int *)group);
    free(malloc(100));
    pthread_barrier_wait(&entered);
    pthread_barrier_wait(&forked);
    return NULL;
}

/* A child has only the thread that forks, inside its group. */
static void forks(void)
{
    int mine = make(0, "mine", SIZE_MAX), other = make(0, "other", SIZE_MAX);
    pthread_t thread;
    pthread_barrier_init(&entered, NULL, 2);
    pthread_barrier_init(&forked, NULL, 2);
    CHECK(pthread_create(&thread, NULL, stay, &other) == 0, "no thread");
    pthread_barrier_wait(&entered);
    enter(mine);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(1000));
        CHECK(quarry_group_destroy(mine) == -1 && errno == EBUSY, "this thread is inside");
        end(other);
        leave(0);
        end(mine);
        check_tree();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %x", status);
    CHECK(quarry_group_destroy(other) == -1 && errno == EBUSY, "the thread is inside");
    pthread_barrier_wait(&forked);
    pthread_join(thread, NULL);
    leave(0);
    end(mine);
    end(other);
}

static void heaps(void)
{
    int group = make(0, "heaps", MIB);
    quarry_heap *heap = quarry_heap_create_in(group, "heap", 0);
    CHECK(heap != NULL, "no heap");
    char *object = quarry_heap_malloc(heap, 500 * KIB);
    CHECK(object != NULL && stat_of(group).heaps >= 500 * KIB, "%zu", stat_of(group).heaps);
    CHECK(quarry_heap_malloc(heap, 600 * KIB) == NULL && errno == ENOMEM, "beyond the limit");
    enter(group);
    CHECK(malloc(600 * KIB) == NULL && errno == ENOMEM, "both share the limit");
    free(object);
    object = malloc(600 * KIB);
    CHECK(object != NULL, "there is room now");
    leave(0);
    free(object);
    check_tree();
    CHECK(quarry_group_destroy(group) == -1 && errno == EBUSY, "a heap is in it");
    quarry_heap_destroy(heap);
    end(group);
    CHECK(quarry_heap_create_in(group, "heap", 0) == NULL && errno == EINVAL, "it is gone");
}

static void errors(void)
{
    int group = make(0, "errors", SIZE_MAX);
    static const int NONE[] = {-1, 77, 65535, 65536, 1 << 30};
    for (size_t i = 0; i < LENGTH(NONE); i++) {
        CHECK(quarry_group_enter(NONE[i]) == -1 && errno == EINVAL, "%d", NONE[i]);
        CHECK(quarry_group_leave(NONE[i]) == -1 && errno == EINVAL, "%d", NONE[i]);
        CHECK(quarry_group_create(NONE[i], "", NULL) == -1 && errno == EINVAL, "%d", NONE[i]);
        CHECK(quarry_group_stat(NONE[i], NULL, 0) == -1 && errno == EINVAL, "%d", NONE[i]);
        CHECK(quarry_group_on_pressure(NONE[i], NULL, NULL) == -1 && errno == EINVAL, "none");
    }
    CHECK(quarry_group_stat(group, NULL, 0) == -1 && errno == EINVAL, "no place");
    CHECK(quarry_group_create(0, NULL, NULL) == -1 && errno == EINVAL, "no name");
    CHECK(quarry_group_create(0, "\xff", NULL) == -1 && errno == EINVAL, "no text");
    quarry_group_limits low = {0, SIZE_MAX, MIB, SIZE_MAX, 2 * MIB};
    CHECK(quarry_group_create(0, "", &low) == -1 && errno == EINVAL, "low above max");
    CHECK(quarry_group_enter(group) == 0 && quarry_group_enter(group) == group, "twice");
    CHECK(quarry_group_leave(0) == 0 && quarry_group_leave(0) == 0, "twice");
    end(group);
    CHECK(quarry_group_enter(group) == -1 && errno == EINVAL, "it is gone");
}

/* Random operations in a tree of groups, against sums of what malloc_usable_size says. */
static void at_random(void)
{
    enum { GROUPS = 12, OBJECTS = 2000, STEPS = 60000 };
    static struct { char *object; size_t size; int owner; } objects[OBJECTS];
    int groups[GROUPS];
    size_t expected[GROUPS] = {0};
    unsigned seed = 1;
    for (int i = 0; i < GROUPS; i++)
        groups[i] = make(i < 3 ? 0 : groups[i / 3], "random", i % 4 == 1 ? 600 * KIB : SIZE_MAX);
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525 + 1013904223;
        unsigned chance = seed >> 8;
        int group = (int)(chance % GROUPS);
        size_t at = chance / 16 % OBJECTS;
        size_t size = (size_t)1 << (chance / 3 % 17), sized = size / 2 + chance % (size / 2 + 1);
        if (objects[at].object == NULL) {
            int before = enter(groups[group]);
            objects[at].object = step % 5 == 0 ? calloc(1, sized) : malloc(sized);
            leave(before);
            objects[at].owner = group;
        } else {
            expected[objects[at].owner] -= malloc_usable_size(objects[at].object);
            CHECK_PATTERN(objects[at].object, objects[at].size, (unsigned)at);
            if (step % 3 == 0) {
                char *moved = realloc(objects[at].object, sized + 1);
                sized = moved == NULL ? objects[at].size : sized + 1;
                objects[at].object = moved == NULL ? objects[at].object : moved;
            } else {
                free(objects[at].object);
                objects[at].object = NULL;
            }
        }
        if (objects[at].object != NULL) {
            objects[at].size = sized;
            pattern_fill(objects[at].object, sized, (unsigned)at);
            expected[objects[at].owner] += malloc_usable_size(objects[at].object);
        }
        if (step % 2000 == 0) {
            check_tree();
            for (int i = 0; i < GROUPS; i++)
                CHECK(in_use(groups[i]) == expected[i], "group %d: %zu, not %zu", i,
                      in_use(groups[i]), expected[i]);
        }
    }
    for (int i = GROUPS - 1; i >= 0; i--)
        end(groups[i]);
    for (size_t at = 0; at < OBJECTS; at++)
        free(objects[at].object);
    check_tree();
}

static void many(void)
{
    enum { MANY = 10000 };
    static int groups[MANY];
    static char *objects[MANY];
    for (int i = 0; i < MANY; i++) {
        groups[i] = make(0, "many", MIB);
        enter(groups[i]);
        objects[i] = memset(malloc(100), i, 100);
    }
    enter(0);
    for (int i = 0; i < MANY; i += 997)
        CHECK(in_use(groups[i]) == malloc_usable_size(objects[i]), "group %d", i);
    for (int i = 0; i < MANY; i++) {
        CHECK(objects[i][99] == (char)i, "object %d", i);
        free(objects[i]);
        end(groups[i]);
    }
    CHECK(quarry_group_next(0) == 0, "no group is left");
}

static void disabled(void)
{
    CHECK(quarry_group_create(0, "", NULL) == -1 && errno == ENOTSUP, "QUARRY_DISABLE=1");
    CHECK(quarry_group_enter(1) == -1 && errno == EINVAL, "there is none");
    CHECK(quarry_group_next(0) == 0, "there is none");
}

int main(int count, char **arguments)
{
    static const struct { const char *name; void (*run)(void); } PARTS[] = {
        {"functions", functions}, {"limit", limit}, {"pressure", pressure}, {"rest", rest},
        {"threads", threads}, {"forks", forks}, {"heaps", heaps}, {"errors", errors},
        {"random", at_random}, {"many", many}, {"disabled", disabled},
    };
    for (size_t i = 0; count == 2 && i < LENGTH(PARTS); i++) {
        if (strcmp(arguments[1], PARTS[i].name) == 0) {
            PARTS[i].run();
            return 0;
        }
    }
    return 2;
}
