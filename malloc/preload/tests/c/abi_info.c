/* mallinfo, mallinfo2, mallopt, malloc_trim, malloc_stats; prints malloc_info on stdout. */
#include "check.h"

enum { COUNT = 2000, SIZE = 5000 };
static void *objects[COUNT];

static void allocate_all(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = malloc(SIZE);
        CHECK(objects[i] != NULL, "malloc(%d)", SIZE);
        pattern_fill(objects[i], SIZE, i);
    }
}

static void free_all(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_PATTERN(objects[i], SIZE, i);
        free(objects[i]);
    }
}

static size_t bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* The bytes in use, which people watch, follow what the program holds. */
static void mallinfo_follows(void)
{
    size_t before = bytes_in_use();
    allocate_all();
    size_t during = bytes_in_use();
    CHECK(during >= before + (size_t)COUNT * SIZE, "%zu bytes in use, then %zu", before, during);
    CHECK(during < before + 2 * (size_t)COUNT * SIZE, "%zu bytes in use, then %zu", before, during);
    struct mallinfo2 wide = mallinfo2();
    CHECK(wide.arena + wide.hblkhd >= wide.uordblks, "arena %zu, hblkhd %zu, uordblks %zu",
          wide.arena, wide.hblkhd, wide.uordblks);
    /* glibc has deprecated the narrow form, but programs still call it. */
    struct mallinfo (*mallinfo_narrow)(void) = dlsym(RTLD_DEFAULT, "mallinfo");
    CHECK(mallinfo_narrow != NULL, "no mallinfo");
    struct mallinfo narrow = mallinfo_narrow();
    CHECK(narrow.uordblks == (int)wide.uordblks, "mallinfo says %d, mallinfo2 %zu", narrow.uordblks,
          wide.uordblks);
    free_all();
    size_t after = bytes_in_use();
    CHECK(after < before + MIB, "%zu bytes in use before, %zu after", before, after);
}

/* The sums are exact, as in glibc: cached memory counts as free, and nothing counts twice. No other
   thread works here. */
static void mallinfo_adds_up(void)
{
    struct mallinfo2 before = mallinfo2();
    void *volatile object = malloc(64);
    struct mallinfo2 with_one = mallinfo2();
    size_t one = with_one.uordblks - before.uordblks;
    CHECK(one >= 64 && one <= 80, "one object of 64 bytes counts %zu", one);
    CHECK(with_one.uordblks < 64 << 10, "%zu bytes in use after one malloc", with_one.uordblks);
    void *volatile large = malloc(5 * MIB);
    struct mallinfo2 with_large = mallinfo2();
    CHECK(with_large.uordblks == with_one.uordblks, "a mapping counts %zu in the heap",
          with_large.uordblks - with_one.uordblks);
    CHECK(with_large.hblks == with_one.hblks + 1, "%zu mappings", with_large.hblks);
    CHECK(with_large.hblkhd - with_one.hblkhd >= 5 * MIB &&
              with_large.hblkhd - with_one.hblkhd < 6 * MIB,
          "a mapping of 5 MiB counts %zu", with_large.hblkhd - with_one.hblkhd);
    allocate_all();
    free_all();
    free(large);
    free(object);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks == before.uordblks, "%zu bytes in use before, %zu after", before.uordblks,
          after.uordblks);
    CHECK(after.hblkhd == before.hblkhd, "%zu bytes mapped before, %zu after", before.hblkhd,
          after.hblkhd);
    struct mallinfo2 *all[] = {&before, &with_one, &with_large, &after};
    for (size_t i = 0; i < LENGTH(all); i++) {
        CHECK(all[i]->uordblks + all[i]->fordblks == all[i]->arena, "%zu: %zu + %zu != %zu", i,
              all[i]->uordblks, all[i]->fordblks, all[i]->arena);
        CHECK(all[i]->fsmblks <= all[i]->fordblks, "%zu: %zu cached of %zu free", i,
              all[i]->fsmblks, all[i]->fordblks);
    }
}

/* mallopt says 1 only for what holds from then on. */
static void mallopt_says_what_it_does(void)
{
    static const struct {
        int parameter, value, answer;
    } calls[] = {
        {M_MXFAST, 0, 0},          {M_TOP_PAD, 1 << 20, 0},   {M_MMAP_THRESHOLD, 1 << 20, 0},
        {M_MMAP_MAX, 0, 1},        {M_MMAP_MAX, 65536, 0},    {M_CHECK_ACTION, 3, 1},
        {M_CHECK_ACTION, 0, 0},    {M_PERTURB, 0, 1},         {M_PERTURB, 0x5a, 0},
        {M_ARENA_TEST, 2, 0},      {M_ARENA_MAX, 1, 0},       {M_TRIM_THRESHOLD, 128 << 10, 0},
        {M_TRIM_THRESHOLD, -1, 1}, {M_TRIM_THRESHOLD, -1, 1}, {M_TRIM_THRESHOLD, 128 << 10, 1},
    };
    for (size_t i = 0; i < LENGTH(calls); i++) {
        int answer = mallopt(calls[i].parameter, calls[i].value);
        CHECK(testing_a_peer() || answer == calls[i].answer, "mallopt(%d, %d) = %d",
              calls[i].parameter, calls[i].value, answer);
    }
    mallopt(12345, 1);
    allocate_all();
    free_all();
}

static void trim_keeps_what_is_in_use(void)
{
    for (size_t padding = 0; padding <= MIB; padding += MIB) {
        allocate_all();
        for (size_t i = 0; i < COUNT; i += 2)
            free(objects[i]);
        int answer = malloc_trim(padding);
        CHECK(answer == 0 || answer == 1, "malloc_trim(%zu) = %d", padding, answer);
        for (size_t i = 0; i < COUNT; i += 2) {
            objects[i] = malloc(SIZE);
            CHECK(objects[i] != NULL, "malloc(%d)", SIZE);
            pattern_fill(objects[i], SIZE, i);
        }
        free_all();
    }
}

int main(void)
{
    require_quarry();
    if (!testing_a_peer())
        mallinfo_adds_up();
    mallinfo_follows();
    mallopt_says_what_it_does();
    trim_keeps_what_is_in_use();
    CHECK(malloc_info(1, stdout) != 0, "malloc_info accepts an unknown option");
    allocate_all();
    CHECK(malloc_info(0, stdout) == 0, "malloc_info");
    fflush(stdout);
    malloc_stats();
    free_all();
    return 0;
}
