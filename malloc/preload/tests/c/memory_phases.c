/*
 * Allocates 256 MiB in objects of one size, frees them all, and at once allocates as much in
 * objects of another size. The memory of one phase serves the next.
 */
#include "memory.h"

static void phase(struct objects *objects, size_t size)
{
    while (objects->bytes < 256 * MIB)
        add_object(objects, size);
    for (size_t i = 0; i < objects->count; i++)
        free_object(objects, i);
    objects->count = 0;
}

int main(void)
{
    require_quarry();
    static const size_t sizes[] = {64, 8192, 64, 1000, 8192, 200, 8192};
    struct objects objects = room_for(256 * MIB / 64);
    /* Makes the table resident before anything is measured. */
    memset(objects.all, 1, objects.most * sizeof(struct object));
    size_t before = resident_bytes(), alone = 0;
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        reset_peak();
        phase(&objects, sizes[i]);
        size_t peak = peak_bytes() - before;
        printf("%zu: peak %zu KiB\n", sizes[i], peak / KIB);
        /* The largest phase so far: the bytes requested, each object rounded up to its class. */
        size_t rounded = sizes[i] == 1000 ? 256 * MIB / 1000 * 1024 : 256 * MIB;
        rounded = sizes[i] == 200 ? 256 * MIB / 200 * 208 : rounded;
        alone = rounded > alone ? rounded : alone;
        CHECK(peak <= alone + alone / 10, "peak of %zu bytes in the phase of %zu", peak, sizes[i]);
    }
    return 0;
}
