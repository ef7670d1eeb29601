/*
 * A program sees Quarry's slabs as jemalloc's bins, and by them moves objects out of sparse slabs,
 * as Valkey does. "told": the policy's mallocx also takes objects that CPUs hold. "untold": no
 * allocation has figures of its slab, or the checks are on, which report wrong pointers.
 * "disabled": Quarry does not serve.
 */
#include "check.h"
#include <quarry.h>

#define NO_CACHE 0x100
#define MOST_BINS 64
#define EACH 12000

void *mallocx(size_t, int);
void sdallocx(void *, size_t, int);
int mallctl(const char *, void *, size_t *, void *, size_t);
int mallctlnametomib(const char *, size_t *, size_t *);
int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t);

/* The answers of a query about one pointer, in the order of a batch. */
struct told {
    size_t free, regions, bytes;
};

struct key {
    size_t numbers[6], length;
};

static struct bin {
    size_t size, used, slabs, partial;
    unsigned regions;
    struct key keys[3];
} bins[MOST_BINS];
static unsigned nr_bins;
static struct key batch;

/* Two of these sizes are in one bin of jemalloc (160), others alone between two bins. */
static const size_t SIZES[] = {40, 144, 160, 300, 700, 1100, 1200, 5000, 20000};
static unsigned char *objects[LENGTH(SIZES)][EACH];

/* The number of jemalloc's size class: 8 bytes apart up to 64, then four to a doubling. */
static unsigned class_of(size_t bytes)
{
    unsigned number = 0;
    for (size_t size = 8, doubling = 64; size < bytes; number++) {
        if (size == 2 * doubling)
            doubling *= 2;
        size += size < 64 ? 8 : doubling / 4;
    }
    return number;
}

static struct key key_of(const char *name)
{
    struct key key = {.length = LENGTH(key.numbers)};
    int error = mallctlnametomib(name, key.numbers, &key.length);
    CHECK(error == 0 && key.length <= LENGTH(key.numbers), "%s: %d", name, error);
    return key;
}

static size_t count_of(const struct key *key)
{
    size_t value = 0, length = sizeof value;
    int error = mallctlbymib(key->numbers, key->length, &value, &length, NULL, 0);
    CHECK(error == 0 && length == sizeof value, "%d", error);
    return value;
}

static void know_bins(void)
{
    size_t quantum, length = sizeof quantum;
    CHECK(mallctl("arenas.quantum", &quantum, &length, NULL, 0) == 0 && quantum == 8, "quantum");
    length = sizeof nr_bins;
    CHECK(mallctl("arenas.nbins", &nr_bins, &length, NULL, 0) == 0, "nbins");
    CHECK(nr_bins >= 36 && nr_bins <= MOST_BINS, "%u bins", nr_bins);
    for (unsigned i = 0; i < nr_bins; i++) {
        static const char *const COUNTS[] = {"curregs", "curslabs", "nonfull_slabs"};
        char name[64];
        snprintf(name, sizeof name, "arenas.bin.%u.size", i);
        length = sizeof bins[i].size;
        CHECK(mallctl(name, &bins[i].size, &length, NULL, 0) == 0, "%s", name);
        CHECK(class_of(bins[i].size) == i, "%s = %zu", name, bins[i].size);
        CHECK(i == 0 || class_of(bins[i - 1].size + 1) == i, "%s = %zu", name, bins[i].size);
        snprintf(name, sizeof name, "arenas.bin.%u.nregs", i);
        length = sizeof bins[i].regions;
        CHECK(mallctl(name, &bins[i].regions, &length, NULL, 0) == 0, "%s", name);
        CHECK(bins[i].regions > 0, "%s", name);
        for (unsigned count = 0; count < LENGTH(COUNTS); count++) {
            snprintf(name, sizeof name, "stats.arenas.4096.bins.%u.%s", i, COUNTS[count]);
            bins[i].keys[count] = key_of(name);
        }
    }
    batch = key_of("experimental.utilization.batch_query");
}

/* Returns the bytes of free regions of all slabs in use. */
static size_t read_bins(void)
{
    uint64_t epoch = 1;
    size_t length = sizeof epoch, wasted = 0;
    CHECK(mallctl("epoch", &epoch, &length, &epoch, sizeof epoch) == 0, "epoch");
    for (struct bin *bin = bins; bin < bins + nr_bins; bin++) {
        bin->used = count_of(&bin->keys[0]);
        bin->slabs = count_of(&bin->keys[1]);
        bin->partial = count_of(&bin->keys[2]);
        size_t all = bin->slabs * bin->regions, full = bin->slabs - bin->partial;
        CHECK(bin->partial <= bin->slabs, "%zu of %zu slabs", bin->partial, bin->slabs);
        CHECK(bin->used <= all, "%zu of %zu regions of %zu", bin->used, all, bin->size);
        CHECK(bin->used >= full * bin->regions, "%zu of %zu slabs of %zu bytes have %zu regions",
              full, bin->slabs, bin->size, bin->used);
        wasted += (all - bin->used) * bin->size;
    }
    return wasted;
}

static struct told ask(void *pointer)
{
    struct told told = {1, 1, 1};
    size_t length = sizeof told;
    int error = mallctlbymib(batch.numbers, batch.length, &told, &length, &pointer, sizeof pointer);
    CHECK(error == 0 && length == sizeof told, "%d for %p", error, pointer);
    return told;
}

/* Decides as Valkey does; an object in use has a bin, or is larger than all bins. */
static int is_worth_moving(void *object)
{
    struct told told = ask(object);
    CHECK(told.regions > 0 && told.bytes > 0 && told.free < told.regions, "%p", object);
    size_t region = told.bytes / told.regions;
    if (region > bins[nr_bins - 1].size)
        return 0;
    const struct bin *bin = &bins[class_of(region)];
    CHECK(bin->size == region, "%p has regions of %zu bytes", object, region);
    size_t live = bin->regions - told.free;
    size_t of_partial = bin->used - (bin->slabs - bin->partial) * bin->regions;
    return live != bin->regions && bin->partial >= 2
        && 1000 * live * bin->partial <= 1125 * of_partial;
}

static size_t move_all(void)
{
    size_t moved = 0;
    for (unsigned kind = 0; kind < LENGTH(SIZES); kind++) {
        for (unsigned i = 0; i < EACH; i++) {
            unsigned char *old = objects[kind][i];
            if (old == NULL || !is_worth_moving(old))
                continue;
            objects[kind][i] = mallocx(SIZES[kind], NO_CACHE);
            CHECK(objects[kind][i] != NULL, "no memory");
            memcpy(objects[kind][i], old, SIZES[kind]);
            sdallocx(old, SIZES[kind], NO_CACHE);
            moved++;
        }
    }
    return moved;
}

/* Keeps one of five objects of each size; returns the bytes that stay. */
static size_t populate(void)
{
    size_t live = 0;
    for (unsigned kind = 0; kind < LENGTH(SIZES); kind++)
        for (unsigned i = 0; i < EACH; i++) {
            objects[kind][i] = malloc(SIZES[kind]);
            CHECK(objects[kind][i] != NULL, "no memory");
            memset(objects[kind][i], (int)(i % 251), SIZES[kind]);
        }
    for (unsigned kind = 0; kind < LENGTH(SIZES); kind++)
        for (unsigned i = 0; i < EACH; i++) {
            if (i % 5 == 0) {
                live += malloc_usable_size(objects[kind][i]);
                continue;
            }
            free(objects[kind][i]);
            objects[kind][i] = NULL;
        }
    malloc_trim(0);
    return live;
}

/* An object's regions are as full as its slab; those of a bin's own size are its objects. */
static void agrees_with_occupancy(void)
{
    for (unsigned kind = 0; kind < LENGTH(SIZES); kind++)
        for (unsigned i = 0; i < EACH; i += 50) {
            void *object = objects[kind][i];
            struct told told = ask(object);
            quarry_occupancy_t it;
            quarry_occupancy(&object, 1, &it);
            const struct bin *bin = &bins[class_of(malloc_usable_size(object))];
            CHECK(told.regions == bin->regions, "%zu regions", told.regions);
            CHECK(told.bytes == bin->regions * bin->size, "%zu bytes", told.bytes);
            size_t live = told.regions - told.free, exact = it.live * told.regions / it.total;
            CHECK(live == (exact ? exact : 1), "%zu of %zu regions, %u of %u objects", live,
                  told.regions, it.live, it.total);
            CHECK(bin->size != malloc_usable_size(object) || told.regions == it.total,
                  "%zu regions, %u objects of %zu bytes", told.regions, it.total, bin->size);
        }
}

/* Asks for pointers to no allocation, which all answer zeros, and to an object, a block and a
 * mapping. */
static void odd_pointers(int is_told, int is_served)
{
    char local;
    static char fixed;
    char *object = malloc(100), *block = malloc(100000), *mapping = malloc(4 * MIB);
    CHECK(object != NULL && block != NULL && mapping != NULL, "no memory");
    void *odd[] = {NULL, &local, &fixed, (void *)-1, object + 8, block + PAGE, mapping + PAGE,
        object + ((size_t)1 << 39), object, block, mapping};
    size_t first = is_served && !is_told ? LENGTH(odd) - 3 : 0, last = LENGTH(odd) - 3;
    struct told told[LENGTH(odd)], none = {0, 0, 0};
    size_t length = sizeof *told * (LENGTH(odd) - first), six[6], of_six = sizeof six;
    memset(told, 1, sizeof told);
    read_bins();
    errno = 77;
    CHECK(mallctl("experimental.utilization.batch_query", told + first, &length, odd + first,
                  sizeof *odd * (LENGTH(odd) - first)) == 0, "%zu", length);
    CHECK(errno == 77, "errno has changed");
    for (size_t i = first; i < LENGTH(odd); i++) {
        const struct told *it = &told[i];
        if (i < last || !is_served) {
            CHECK(memcmp(it, &none, sizeof none) == 0, "pointer %zu: %zu regions", i, it->regions);
            continue;
        }
        int is_alone = it->regions == 1 && it->free == 0
            && it->bytes >= malloc_usable_size(odd[i]);
        CHECK(is_alone == (i > last || !is_told), "pointer %zu: %zu, %zu, %zu", i, it->free,
              it->regions, it->bytes);
    }
    void **pointer = &odd[last];
    CHECK(mallctl("experimental.utilization.query", six, &of_six, pointer, sizeof *pointer) == 0
              && six[0] == 0 && memcmp(six + 1, &told[last], sizeof *told) == 0,
          "%zu, %zu, %zu, %zu", six[0], six[1], six[2], six[3]);
    CHECK(six[4] <= six[5] && (six[5] > 0) == is_told, "%zu of %zu", six[4], six[5]);
    for (size_t i = last; i < LENGTH(odd); i++) {
        free(odd[i]);
        /* The object is among those that the CPU hands out next, and counts as in use. */
        if (is_told)
            CHECK((ask(odd[i]).regions > 0) == (i == last), "pointer %zu was freed", i);
    }
}

static void misuse(void)
{
    static const char MANY[] = "experimental.utilization.batch_query";
    static const char SINGLE[] = "experimental.utilization.query";
    void *pointers[2] = {NULL, NULL};
    size_t out[12], bytes = 3 * sizeof *out;
    CHECK(mallctl(MANY, NULL, &bytes, pointers, sizeof *pointers) == EINVAL, "no room");
    CHECK(mallctl(MANY, out, NULL, pointers, sizeof *pointers) == EINVAL, "no length");
    CHECK(mallctl(MANY, out, &bytes, NULL, sizeof *pointers) == EINVAL, "no pointers");
    CHECK(mallctl(MANY, out, &bytes, pointers, 0) == EINVAL, "an empty batch");
    CHECK(mallctl(MANY, out, &bytes, pointers, sizeof *pointers - 1) == EINVAL, "half a pointer");
    CHECK(mallctl(MANY, out, &bytes, pointers, sizeof *pointers + 1) == EINVAL, "and a half");
    CHECK(mallctl(MANY, out, &bytes, pointers, sizeof pointers) == EINVAL, "room for one of two");
    CHECK(mallctl(MANY, out, &bytes, pointers, SIZE_MAX / 8 * 8) == EINVAL, "more than there is");
    bytes = 6 * sizeof *out;
    CHECK(mallctl(MANY, out, &bytes, pointers, sizeof *pointers) == EINVAL, "room for two of one");
    CHECK(mallctl(SINGLE, out, &bytes, pointers, sizeof pointers) == EINVAL, "two pointers");
    CHECK(mallctl(SINGLE, out, &bytes, NULL, 0) == EINVAL, "no pointer");
    bytes = sizeof out;
    CHECK(mallctl(SINGLE, out, &bytes, pointers, sizeof *pointers) == EINVAL, "too much room");
    CHECK(mallctl("stats.arenas.0.bins.0.curregs", NULL, NULL, out, 8) == EPERM, "read only");
    CHECK(mallctl("arenas.bin.0.nregs", NULL, NULL, out, 4) == EPERM, "read only");
    bytes = 4;
    CHECK(mallctl("stats.arenas.0.bins.0.curslabs", out, &bytes, NULL, 0) == EINVAL, "4 bytes");
    bytes = 8;
    CHECK(mallctl("arenas.bin.0.nregs", out, &bytes, NULL, 0) == EINVAL, "8 bytes");
    static const char *const NONE[] = {"experimental.utilization", "arenas.bin.%u.nregs",
        "stats.arenas.0.bins.%u.curregs", "stats.arenas.0.bins.%u.nonfull_slabs",
        "stats.arenas.0.bins.0.%u", "experimental.utilization.batch_query.%u"};
    for (size_t i = 0; i < LENGTH(NONE); i++) {
        char name[64];
        size_t mib[6], length = LENGTH(mib);
        snprintf(name, sizeof name, NONE[i], nr_bins);
        bytes = 8;
        CHECK(mallctl(name, out, &bytes, NULL, 0) == ENOENT, "%s", name);
        CHECK(mallctlnametomib(name, mib, &length) == ENOENT, "%s", name);
    }
    struct key key = bins[0].keys[0];
    key.numbers[4] = nr_bins;
    CHECK(mallctlbymib(key.numbers, key.length, out, &bytes, NULL, 0) == ENOENT, "a bin too many");
}

int main(int count, char **arguments)
{
    const char *how = count < 2 ? "" : arguments[1];
    int is_served = strcmp(how, "disabled") != 0, is_told = is_served && strcmp(how, "untold") != 0;
    know_bins();
    misuse();
    odd_pointers(is_told, is_served);
    size_t live = populate(), wasted = read_bins(), moved = 0;
    if (is_told) {
        CHECK(wasted > live, "%zu bytes are free in slabs, %zu in use", wasted, live);
        agrees_with_occupancy();
    }
    for (size_t before = SIZE_MAX; is_served && wasted < before;) {
        before = wasted;
        moved += move_all();
        wasted = read_bins();
    }
    CHECK(is_told ? moved > EACH : moved == 0, "%zu were moved", moved);
    if (count < 2) {
        quarry_budget now;
        malloc_trim(0);
        wasted = read_bins();
        CHECK(wasted < live / 8, "%zu bytes are free in slabs, %zu in use", wasted, live);
        CHECK(quarry_budget_read(&now, sizeof now) == 0, "no budget");
        CHECK(now.used < live + live / 4, "%zu bytes are in use of %zu", now.used, live);
    }
    for (unsigned kind = 0; kind < LENGTH(SIZES); kind++)
        for (unsigned i = 0; i < EACH; i++)
            if (objects[kind][i] != NULL) {
                CHECK(objects[kind][i][SIZES[kind] - 1] == i % 251, "object %u has changed", i);
                free(objects[kind][i]);
            }
    CHECK(!is_served || quarry_validate() == 0, "an invariant is broken");
    return 0;
}
