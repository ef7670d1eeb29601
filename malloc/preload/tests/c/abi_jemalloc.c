/* The functions that jemalloc has beside malloc's, found by name. It runs on jemalloc, too
 * (TEST_PEER=1). "full": also creates arenas and caches, which libquarry.so refuses. */
#include "check.h"

#define ALIGN(bits) (bits)
#define ZERO 0x40
#define NO_CACHE 0x100
#define CACHE(number) ((int)((number) + 2) << 8)
#define ARENA(number) ((int)((number) + 1) << 20)

static void *(*mallocx)(size_t, int), *(*rallocx)(void *, size_t, int);
static size_t (*xallocx)(void *, size_t, size_t, int), (*sallocx)(const void *, int);
static size_t (*nallocx)(size_t, int);
static void (*dallocx)(void *, int), (*sdallocx)(void *, size_t, int);
static int (*mallctl)(const char *, void *, size_t *, void *, size_t);
static int (*mallctlnametomib)(const char *, size_t *, size_t *);
static int (*mallctlbymib)(const size_t *, size_t, void *, size_t *, void *, size_t);
static void (*malloc_stats_print)(void (*)(void *, const char *), void *, const char *);

static void find(void *place, const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address != NULL, "no %s", name);
    memcpy(place, &address, sizeof(address));
}

#define FIND(function) find(&function, #function)

/* Returns whether all `count` bytes are `value`. A loop over them takes minutes in an emulated
 * machine. */
static int all_are(unsigned char value, const unsigned char *bytes, size_t count)
{
    return count == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static void allocates(int flags)
{
    size_t alignment = (size_t)1 << (flags & 0x3f);
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        size_t size = EDGE_SIZES[i], good = nallocx(size, flags);
        /* Leaves bytes that ZERO has to clear. */
        char *dirty = malloc(size);
        CHECK(dirty != NULL, "malloc(%zu)", size);
        memset(opaque(dirty), 0x5a, size);
        free(dirty);
        unsigned char *object = mallocx(size, flags);
        CHECK(object != NULL && (uintptr_t)object % alignment == 0, "%p of %zu", object, size);
        size_t held = sallocx(object, flags);
        CHECK(good >= size && held >= size, "%zu, %zu for %zu", good, held, size);
        CHECK(held == malloc_usable_size(object), "%zu", held);
        CHECK(!(flags & ZERO) || all_are(0, object, held), "%zu are not zero", size);
        memset(object, 0xa5, held);
        size_t stays = xallocx(object, size, 0, flags);
        CHECK(stays >= size && stays == sallocx(object, flags), "%zu of %zu", stays, size);
        object = rallocx(object, 2 * size + 100, flags);
        CHECK(object != NULL && (uintptr_t)object % alignment == 0, "%p of %zu", object, size);
        CHECK(all_are(0xa5, object, held), "the first of %zu are others", size);
        size_t more = sallocx(object, flags) - held;
        CHECK(!(flags & ZERO) || all_are(0, object + held, more), "%zu more are not zero", more);
        if (i % 2)
            sdallocx(object, 2 * size + 100, flags);
        else
            dallocx(object, flags);
    }
}

static size_t size_of(const char *name)
{
    size_t value = 0, length = sizeof(value);
    int error = mallctl(name, &value, &length, NULL, 0);
    CHECK(error == 0 && length == sizeof(value), "%s: %d, %zu", name, error, length);
    return value;
}

static uint64_t refresh(void)
{
    uint64_t epoch = 1;
    size_t length = sizeof(epoch);
    CHECK(mallctl("epoch", &epoch, &length, &epoch, sizeof(epoch)) == 0, "epoch");
    return epoch;
}

static void tells_what_it_holds(void)
{
    uint64_t first = refresh();
    size_t before = size_of("stats.allocated");
    char *objects[64];
    for (size_t i = 0; i < LENGTH(objects); i++) {
        objects[i] = malloc(MIB + i);
        CHECK(objects[i] != NULL, "malloc");
        memset(opaque(objects[i]), 1, MIB);
    }
    CHECK(refresh() == first + 1, "epoch %ju", (uintmax_t)first);
    size_t allocated = size_of("stats.allocated"), active = size_of("stats.active");
    size_t resident = size_of("stats.resident"), mapped = size_of("stats.mapped");
    CHECK(allocated >= before + LENGTH(objects) * MIB, "%zu after %zu", allocated, before);
    CHECK(active >= allocated && mapped >= active, "%zu %zu %zu", allocated, active, mapped);
    CHECK(resident >= active && size_of("stats.metadata") > 0, "%zu %zu", resident, active);
    size_of("stats.retained");
    for (size_t i = 0; i < LENGTH(objects); i++)
        free(objects[i]);
    refresh();
    CHECK(size_of("stats.allocated") < before + MIB, "%zu", size_of("stats.allocated"));
    CHECK(size_of("arenas.page") == PAGE, "%zu", size_of("arenas.page"));
    CHECK(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0, "flush");
    CHECK(mallctl("arena.4096.purge", NULL, NULL, NULL, 0) == 0, "purge");
    CHECK(mallctl("arena.0.decay", NULL, NULL, NULL, 0) == 0, "decay");
}

static void refuses_what_it_has_not(void)
{
    uint32_t narrow = 7;
    uint64_t wide = 0;
    size_t length = sizeof(narrow);
    CHECK(mallctl("stats.allocated", &narrow, &length, NULL, 0) == EINVAL, "too short");
    length = sizeof(wide);
    CHECK(mallctl("arenas.narenas", &wide, &length, NULL, 0) == EINVAL, "too long");
    CHECK(length == sizeof(uint32_t) && wide >= 1, "%zu, %ju", length, (uintmax_t)wide);
    length = sizeof(wide);
    CHECK(mallctl("stats.active", &wide, &length, &wide, length) == EPERM, "read only");
    CHECK(mallctl("arena.0.purge", &wide, &length, NULL, 0) == EPERM, "a command");
    CHECK(mallctl("epoch", NULL, NULL, &narrow, sizeof(narrow)) == EINVAL, "epoch");
    static const char *const NONE[] = {
        "", ".", "stats", "stats.allocated.x", "stats.allocate", "arena", "arena.x.purge",
        "arena..purge", "arena.99999999999999999999.purge", "arenas.bin.9999.size"};
    for (size_t i = 0; i < LENGTH(NONE); i++)
        CHECK(mallctl(NONE[i], &wide, &length, NULL, 0) == ENOENT, "`%s`", NONE[i]);
    if (testing_a_peer())
        return;
    /* With this name some libraries ask whether jemalloc serves the process. */
    CHECK(mallctl("thread.allocatedp", &wide, &length, NULL, 0) == ENOENT, "thread.allocatedp");
    unsigned char off = 0;
    CHECK(mallctl("background_thread", NULL, NULL, &off, 1) == EPERM, "background_thread");
}

static void names_have_numbers(void)
{
    size_t mib[4], length = LENGTH(mib), bytes = sizeof(size_t), last = 0;
    unsigned bins;
    size_t of_bins = sizeof(bins);
    CHECK(mallctl("arenas.nbins", &bins, &of_bins, NULL, 0) == 0 && bins > 30, "%u", bins);
    CHECK(mallctlnametomib("arenas.bin.0.size", mib, &length) == 0 && length == 4, "%zu", length);
    for (unsigned bin = 0; bin < bins; bin++) {
        size_t size = 0;
        mib[2] = bin;
        CHECK(mallctlbymib(mib, length, &size, &bytes, NULL, 0) == 0, "bin %u", bin);
        CHECK(size > last && nallocx(size, 0) >= size, "%zu after %zu", size, last);
        last = size;
    }
    mib[2] = bins;
    int error = mallctlbymib(mib, length, &last, &bytes, NULL, 0);
    CHECK(error == ENOENT, "bin %u: %d", bins, error);
    length = LENGTH(mib);
    CHECK(mallctlnametomib("no.such.name", mib, &length) == ENOENT, "a name");
    mib[0] = 12345;
    CHECK(mallctlbymib(mib, 2, &last, &bytes, NULL, 0) == ENOENT, "numbers");
}

static unsigned create(const char *name)
{
    unsigned number = ~0u;
    size_t length = sizeof(number);
    int error = mallctl(name, &number, &length, NULL, 0);
    CHECK(error == 0 && number < 4094, "%s: %d, %u", name, error, number);
    return number;
}

static size_t of_arena(unsigned arena, const char *figure)
{
    char name[64];
    snprintf(name, sizeof(name), "stats.arenas.%u.%s", arena, figure);
    return size_of(name);
}

static unsigned arenas(void)
{
    unsigned count;
    size_t length = sizeof(count);
    CHECK(mallctl("arenas.narenas", &count, &length, NULL, 0) == 0, "narenas");
    return count;
}

/* As redis from 8 on does, which gives its scripts an arena and each interpreter a cache. */
static void creates(void)
{
    unsigned before = arenas(), arena = create("arenas.create"), other = create("arenas.create");
    unsigned caches[] = {create("tcache.create"), create("tcache.create")};
    CHECK(arena == before && other == before + 1 && arenas() == before + 2, "%u, %u", arena, other);
    CHECK(caches[0] != caches[1], "%u twice", caches[0]);
    for (size_t i = 0; i < LENGTH(caches); i++)
        allocates(ARENA(arena) | CACHE(caches[i]));
    CHECK(mallctl("tcache.flush", NULL, NULL, &caches[0], sizeof(unsigned)) == 0, "flush");
    for (size_t i = 0; i < LENGTH(caches); i++)
        CHECK(mallctl("tcache.destroy", NULL, NULL, &caches[i], sizeof(unsigned)) == 0, "destroy");
    /* Servers that create a cache for each of many interpreters do not run out of them. */
    for (unsigned i = 0; i < 10000; i++) {
        unsigned cache = create("tcache.create");
        CHECK(mallctl("tcache.destroy", NULL, NULL, &cache, sizeof(cache)) == 0, "%u", cache);
    }
    size_t mapped = 4 * MIB;
    char *object = mallocx(1000, ARENA(arena)), *mapping = mallocx(mapped, ARENA(arena));
    CHECK(object != NULL && mapping != NULL, "mallocx");
    refresh();
    size_t small = of_arena(4096, "small.allocated"), large = of_arena(4096, "large.allocated");
    CHECK(small >= 1000 && large >= mapped, "%zu, %zu", small, large);
    if (testing_a_peer())
        return;
    CHECK(small + large == size_of("stats.allocated"), "%zu, %zu", small, large);
    CHECK(of_arena(0, "small.allocated") == small, "%zu", small);
    CHECK(of_arena(4096, "pactive") * PAGE == size_of("stats.active") / PAGE * PAGE, "pactive");
    /* All memory is that of the first arena. */
    static const char *const NONE[] = {"pactive", "small.allocated", "large.allocated", "pmuzzy",
        "bins.30.curregs", "bins.30.curslabs", "bins.30.nonfull_slabs"};
    for (size_t i = 0; i < LENGTH(NONE); i++)
        CHECK(of_arena(arena, NONE[i]) == 0 && of_arena(other, NONE[i]) == 0, "%s", NONE[i]);
    dallocx(mapping, ARENA(arena));
    CHECK(of_arena(0, "large.allocated") <= large - mapped, "%zu", large);
    dallocx(object, ARENA(arena));
}

static void refuses_wrong_numbers(void)
{
    static const char *const NAMES[] = {"tcache.flush", "tcache.destroy"};
    unsigned number = create("tcache.create"), out;
    size_t length = sizeof(out), wide = number;
    for (size_t i = 0; i < LENGTH(NAMES); i++) {
        const char *name = NAMES[i];
        CHECK(mallctl(name, &out, &length, &number, sizeof(number)) == EPERM, "%s", name);
        CHECK(mallctl(name, NULL, NULL, NULL, 0) == EINVAL, "%s", name);
        CHECK(mallctl(name, NULL, NULL, &wide, sizeof(wide)) == EINVAL, "%s", name);
    }
    CHECK(mallctl("tcache.create", &out, &length, &number, sizeof(number)) == EPERM, "tcache");
    if (testing_a_peer())
        return;
    /* An arena would need the program's functions for its extents. */
    void *hooks = NULL;
    CHECK(mallctl("arenas.create", &out, &length, &hooks, sizeof(hooks)) == EPERM, "hooks");
    int error = 0;
    unsigned made = arenas();
    for (unsigned last = made; error == 0; made++) {
        error = mallctl("arenas.create", &last, &length, NULL, 0);
        CHECK(error != 0 || last == made, "%u after %u", last, made);
    }
    CHECK(error == EAGAIN && made > 1000 && made <= 4096, "%d after %u", error, made);
    CHECK(of_arena(4096, "small.allocated") > 0, "the figures of all arenas");
}

static void note(void *printed, const char *text)
{
    *(size_t *)printed += strlen(text);
}

int main(int count, char **arguments)
{
    if (!testing_a_peer())
        require_quarry();
    FIND(mallocx), FIND(rallocx), FIND(xallocx), FIND(sallocx), FIND(nallocx), FIND(dallocx);
    FIND(sdallocx), FIND(mallctl), FIND(mallctlnametomib), FIND(mallctlbymib);
    FIND(malloc_stats_print);
    allocates(0);
    allocates(ZERO);
    allocates(ALIGN(8));
    allocates(ALIGN(13) | ZERO);
    allocates(NO_CACHE);
    allocates(NO_CACHE | ZERO | ALIGN(7));
    CHECK(nallocx(SIZE_MAX, 0) == 0 && mallocx(SIZE_MAX / 2, 0) == NULL, "too much");
    tells_what_it_holds();
    refuses_what_it_has_not();
    names_have_numbers();
    if (count > 1 && strcmp(arguments[1], "full") == 0) {
        creates();
        refuses_wrong_numbers();
    }
    size_t printed = 0;
    malloc_stats_print(note, &printed, NULL);
    CHECK(printed > 0, "nothing printed");
    return 0;
}
