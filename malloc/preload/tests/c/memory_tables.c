/*
 * usage: memory_tables CASE
 * Fills a block, and then makes a large one of which it touches one byte in each 2 MiB. Such a
 * table costs what is touched, however it was requested; the bound for a block that need not be
 * zero is the longest filled one.
 */
#include "memory.h"

#include <malloc.h>

static const size_t STEP = 2 * MIB;
/* Descriptors of frames, and what the test itself touches. */
static const size_t BESIDE = 8 * MIB;

static char *filled(size_t bytes)
{
    return memset(opaque(malloc(bytes)), 1, bytes);
}

static char *touched(void *table, size_t from, size_t bytes)
{
    char *bytes_of = table;
    CHECK(bytes_of != NULL, "no table of %zu bytes", bytes);
    for (size_t at = from; at < bytes; at += STEP) {
        CHECK(from > 0 || bytes_of[at] == 0, "byte %zu of a table is %d", at, bytes_of[at]);
        bytes_of[at] = 1;
    }
    return bytes_of;
}

static void costs_at_most(const char *what, size_t before, size_t most)
{
    size_t now = resident_bytes();
    CHECK(now <= before + most, "%s costs %zu MiB, not %zu", what, (now - before) / MIB,
          most / MIB);
}

static size_t touched_bytes(size_t bytes)
{
    return bytes / STEP * system_page() + BESIDE;
}

/* The table is 2.2 times as long as the block that was filled and freed before it. */
static void zeroed(void)
{
    for (size_t filled_bytes = 8 * MIB; filled_bytes <= 512 * MIB; filled_bytes *= 4) {
        size_t bytes = filled_bytes / 5 * 11;
        free(filled(filled_bytes));
        size_t before = resident_bytes();
        char *table = touched(calloc(bytes, 1), 0, bytes);
        costs_at_most("a table", before, touched_bytes(bytes));
        free(table);
    }
}

/* Several filled blocks, live or freed, and several tables. */
static void several(void)
{
    char *blocks[4], *tables[4];
    for (size_t i = 0; i < 4; i++)
        blocks[i] = filled(100 * MIB);
    free(blocks[1]);
    free(blocks[3]);
    size_t before = resident_bytes();
    for (size_t i = 0; i < 4; i++)
        tables[i] = touched(calloc(90 * MIB, 1), 0, 90 * MIB);
    costs_at_most("four tables", before, 4 * touched_bytes(90 * MIB));
    for (size_t i = 0; i < 4; i++)
        free(tables[i]);
    free(blocks[0]);
    free(blocks[2]);
}

/* The memory of freed blocks in huge pages is at hand. */
static void reused(void)
{
    char *small = filled(4 * MIB);
    free(filled(9 * MIB));
    size_t least = resident_bytes() - 9 * MIB;
    free(filled(60 * MIB));
    free(filled(60 * MIB));
    char *table = touched(calloc(60 * MIB, 1), 0, 60 * MIB);
    costs_at_most("a table in the place of a filled block", least, touched_bytes(60 * MIB));
    free(table);
    free(filled(24 * MIB));
    least = resident_bytes();
    table = touched(calloc(30 * MIB, 1), 0, 30 * MIB);
    costs_at_most("a table that is longer than a filled block", least, touched_bytes(30 * MIB));
    free(table);
    free(small);
}

/* A filled table speaks for tables of its length only, and only until one of them is sparse. */
static void after_a_filled_table(void)
{
    size_t before = resident_bytes();
    free(memset(opaque(calloc(60 * MIB, 1)), 1, 60 * MIB));
    char *table = touched(calloc(50 * MIB, 1), 0, 50 * MIB);
    costs_at_most("a shorter table", before, 60 * MIB + touched_bytes(50 * MIB));
    free(table);
    for (size_t i = 0; i < 3; i++) {
        table = touched(calloc(60 * MIB, 1), 0, 60 * MIB);
        costs_at_most("a table", before, (i == 0 ? 60 * MIB : 0) + touched_bytes(60 * MIB));
        free(table);
    }
}

/* A table grows: by itself it shows that tables are sparse. */
static void grown(void)
{
    free(filled(512 * MIB));
    size_t before = resident_bytes();
    char *table = touched(calloc(300 * MIB, 1), 0, 300 * MIB);
    table = touched(realloc(table, 700 * MIB), 300 * MIB, 700 * MIB);
    table = touched(realloc(table, 1100 * MIB), 700 * MIB, 1100 * MIB);
    costs_at_most("a table that grows", before, touched_bytes(1100 * MIB));
    free(table);
}

/* A block that was filled grows, and its new part is a table. */
static void grown_from_filled(void)
{
    char *block = filled(512 * MIB);
    size_t before = resident_bytes();
    block = touched(realloc(block, 1126 * MIB), 512 * MIB, 1126 * MIB);
    costs_at_most("the new part", before, touched_bytes(614 * MIB));
    free(block);
}

/* A block that need not be zero: at most as much as the program has filled before, in all. */
static void any(void)
{
    free(filled(512 * MIB));
    size_t before = resident_bytes();
    char *one = touched(malloc(1126 * MIB), 0, 1126 * MIB);
    char *two = touched(aligned_alloc(STEP, 512 * MIB), 0, 512 * MIB), *three = NULL;
    CHECK(posix_memalign((void **)&three, 64, 400 * MIB) == 0, "posix_memalign");
    three = touched(three, 0, 400 * MIB);
    costs_at_most("sparse blocks", before, 512 * MIB + touched_bytes(1526 * MIB));
    free(one);
    free(two);
    free(three);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"zeroed", zeroed}, {"several", several},
                 {"reused", reused}, {"grown", grown},
                 {"any", any},       {"grown-from-filled", grown_from_filled},
                 {"after-a-filled-table", after_a_filled_table}};
    CHECK(argc == 2, "usage: %s CASE", argv[0]);
    require_quarry();
    no_unasked_huge_pages();
    for (size_t i = 0; i < LENGTH(cases); i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    CHECK(0, "no case %s", argv[1]);
}
