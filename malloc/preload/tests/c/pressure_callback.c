/*
 * pressure_callback FILE
 *
 * The file tells that the system is short of memory: the callback for pressure hears it, and of the
 * end; objects of a shrinker are freed.
 */
#include "deadline.h"
#include "pressure.h"
#include <quarry.h>
#include <stdatomic.h>

enum { OBJECTS = 100000, BYTES = 1000 };

static atomic_int last = -1;
static void *held[OBJECTS];
static atomic_ulong objects;

static void told(void *context, int level)
{
    (void)context;
    last = level;
}

static size_t counted(void *context)
{
    (void)context;
    return objects;
}

static size_t scanned(void *context, size_t asked, size_t *looked_at)
{
    (void)context;
    size_t freed = asked < objects ? asked : objects;
    for (size_t i = 0; i < freed; i++)
        free(held[--objects]);
    *looked_at = freed;
    return freed;
}

int main(int count, char **arguments)
{
    CHECK(count == 2, "usage: pressure_callback FILE");
    unsigned long total = 1000000;
    write_total(arguments[1], total);
    for (; objects < OBJECTS; objects++)
        CHECK((held[objects] = malloc(BYTES)) != NULL, "no memory");
    quarry_shrinker shrinker = {counted, scanned, .seeks = 1, .object_bytes = BYTES};
    CHECK(quarry_shrinker_register(&shrinker, NULL) != NULL, "the shrinker");
    CHECK(quarry_pressure_register(told, NULL) != NULL, "the callback");
    deadline(60, "nobody tells of the pressure");
    while (last != QUARRY_PRESSURE_MEDIUM) {
        write_total(arguments[1], total += 1000000);
        pause_ms(300);
    }
    CHECK(objects > 0, "everything was freed");
    deadline(60, "the shrinker frees nothing");
    while (objects == OBJECTS)
        pause_ms(100);
    deadline(60, "nobody tells of the end");
    while (last != QUARRY_PRESSURE_NONE)
        pause_ms(100);
    return 0;
}
