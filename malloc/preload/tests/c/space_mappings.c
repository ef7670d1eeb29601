/*
 * Growing buffers, however many, do not use up the mappings that the kernel allows the program, and
 * leave none after they are freed. Untouched pages stay untouched.
 */
#include "deadline.h"
#include "memory.h"

static void grow(size_t count, size_t from, size_t to, size_t step, int is_sparse)
{
    char **buffers = malloc(count * sizeof(char *));
    CHECK(buffers != NULL, "malloc");
    for (size_t i = 0; i < count; i++) {
        buffers[i] = malloc(from);
        CHECK(buffers[i] != NULL, "malloc");
    }
    for (size_t size = from; size < to; size += step) {
        for (size_t i = 0; i < count; i++) {
            buffers[i] = realloc(buffers[i], size);
            CHECK(buffers[i] != NULL, "realloc of %zu to %zu", i, size);
            if (is_sparse)
                buffers[i][size - 1] = 1;
            else
                memset(buffers[i] + size - step, 1, step);
        }
    }
    size_t live = mappings();
    CHECK(live <= 3 * count + 200, "%zu mappings for %zu buffers", live, count);
    for (size_t i = 0; i < count; i++)
        free(buffers[i]);
    free(buffers);
    malloc_trim(0);
}

int main(void)
{
    require_quarry();
    no_unasked_huge_pages();
    deadline(80, "growing many buffers");
    size_t before = mappings();
    grow(200, MIB, 6 * MIB, 600 * KIB, 0);
    CHECK(mappings() <= before + 20, "%zu mappings are left of %zu", mappings(), before);
    check_heap("after 200 buffers");
    reset_peak();
    grow(6000, 2 * MIB, 7 * MIB, 1500 * KIB, 1);
    CHECK(mappings() <= before + 20, "%zu mappings are left of %zu", mappings(), before);
    CHECK(peak_bytes() < 600 * MIB, "%zu bytes were resident: what is sparse was touched",
          peak_bytes());
    check_heap("after 6,000 sparse buffers");
    return 0;
}
