/* Slots for objects that are allocated and freed, with checks of their contents. */
#ifndef QUARRY_TEST_SLOTS_H
#define QUARRY_TEST_SLOTS_H

#include "check.h"

struct slot {
    void *object;
    size_t size;
    uint64_t seed;
};

/* Frees the object of a slot, after checking that its contents are unchanged. */
static UNUSED void slot_free(struct slot *slot)
{
    if (slot->object != NULL)
        CHECK_PATTERN(slot->object, slot->size, slot->seed);
    free(slot->object);
    slot->object = NULL;
}

/* Frees the object of a slot and allocates one of `size` bytes, with the contents of `seed`. */
static UNUSED void slot_replace(struct slot *slot, size_t size, uint64_t seed)
{
    slot_free(slot);
    slot->object = malloc(size);
    CHECK(slot->object != NULL, "malloc(%zu)", size);
    slot->size = size;
    slot->seed = seed;
    pattern_fill(slot->object, size, seed);
}

static UNUSED void slots_free(struct slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        slot_free(&slots[i]);
}

#endif
