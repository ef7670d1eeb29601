/*
 * A program moves objects out of sparse slabs, and their memory comes back. For pointers to no
 * object all figures are 0. "told": the policy's quarry_malloc_dense also takes objects that CPUs
 * hold. "untold": no object has figures. "freed" and "freed-densely": an object that free or
 * quarry_free_dense has freed is freed again.
 */
#include "check.h"
#include <quarry.h>

#define MOST 60000
#define BYTES 300

static unsigned *objects[MOST];

static int is_zero(const quarry_occupancy_t *it)
{
    static const quarry_occupancy_t zero;
    return memcmp(it, &zero, sizeof zero) == 0;
}

static unsigned *fill(void *object, unsigned value)
{
    CHECK(object != NULL, "no memory");
    memset(object, (int)(value % 251), BYTES);
    *(unsigned *)object = value;
    return object;
}

static void check_all(void)
{
    for (unsigned i = 0; i < MOST; i++) {
        const unsigned char *last = (const unsigned char *)objects[i] + BYTES - 1;
        CHECK(!objects[i] || (*objects[i] == i && *last == i % 251), "object %u has changed", i);
    }
}

static void populate(void)
{
    for (unsigned i = 0; i < MOST; i++)
        objects[i] = fill(malloc(BYTES), i);
    /* The third of every three objects stays. */
    for (unsigned i = 0; i < MOST; i++) {
        if (i % 3 == 2)
            continue;
        free(objects[i]);
        objects[i] = NULL;
    }
    malloc_trim(0);
}

static size_t move_all(void)
{
    size_t moved = 0;
    for (unsigned i = 0; i < MOST; i++) {
        quarry_occupancy_t it;
        void *object = objects[i];
        if (object == NULL)
            continue;
        quarry_occupancy(&object, 1, &it);
        CHECK(it.live <= it.total && it.partial_slabs <= it.slabs, "object %u", i);
        if (!it.is_sparse)
            continue;
        objects[i] = quarry_malloc_dense(malloc_usable_size(object));
        memcpy(objects[i], object, BYTES);
        quarry_free_dense(object);
        moved++;
    }
    return moved;
}

static void odd_pointers(int are_told)
{
    char local;
    static char fixed;
    void *object = malloc(100), *block = malloc(100000), *mapping = malloc(4 << 20);
    void *odd[] = { NULL, &local, &fixed, (void *)-1, (char *)object + 8, block, mapping,
        (char *)block + 4096, (char *)mapping + 4096, (char *)object + ((size_t)1 << 39), object };
    quarry_occupancy_t out[LENGTH(odd)];
    errno = 77;
    memset(out, 1, sizeof out);
    quarry_occupancy(NULL, 0, NULL);
    quarry_occupancy(odd, LENGTH(odd), out);
    CHECK(errno == 77, "errno has changed");
    for (size_t i = 0; i + 1 < LENGTH(odd); i++)
        CHECK(is_zero(&out[i]), "pointer %zu has a slab", i);
    CHECK(is_zero(&out[LENGTH(odd) - 1]) == !are_told, "an object has a slab");
    quarry_free_dense(block);
    quarry_free_dense(mapping);
    quarry_free_dense(object);
    quarry_free_dense(NULL);
    block = quarry_malloc_dense(100000);
    object = quarry_malloc_dense(0);
    CHECK(block != NULL && object != NULL, "no memory");
    memset(block, 1, 100000);
    free(block);
    free(object);
    errno = 0;
    CHECK(quarry_malloc_dense((size_t)-1) == NULL && errno == ENOMEM, "more than there is");
}

/* Prints the pointer that is freed again. */
static void free_again(int is_first_dense)
{
    void *object = malloc(100);
    printf("%p\n", object);
    fflush(stdout);
    (is_first_dense ? quarry_free_dense : free)(object);
    quarry_free_dense(opaque(object));
    puts("survived");
}

int main(int count, char **arguments)
{
    if (count > 1 && strncmp(arguments[1], "freed", 5) == 0) {
        free_again(arguments[1][5] == '-');
        return 0;
    }
    int are_told = count < 2 || strcmp(arguments[1], "told") == 0;
    odd_pointers(are_told);
    populate();
    size_t moved = move_all();
    for (size_t again = moved; count < 2 && again > 0;)
        again = move_all();
    check_all();
    CHECK(are_told ? moved > MOST / 12 : moved == 0, "%zu were moved", moved);
    if (count < 2) {
        size_t live = MOST / 3 * BYTES;
        quarry_budget now;
        malloc_trim(0);
        CHECK(quarry_budget_read(&now, sizeof now) == 0, "no budget");
        CHECK(now.used < live + live / 4, "%zu bytes are in use of %zu", now.used, live);
    }
    for (unsigned i = 0; i < MOST; i++)
        quarry_free_dense(objects[i]);
    CHECK(quarry_validate() == 0, "an invariant is broken");
    puts("done");
    return 0;
}
