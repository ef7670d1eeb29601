/* Objects of a heap and of a group in the profile: the argument says what goes before the end. */
#include "check.h"
#include <quarry.h>

__attribute__((noinline)) static void *of_heap(quarry_heap *heap, size_t size)
{
    void *object = quarry_heap_malloc(heap, size);
    CHECK(object != NULL, "no object");
    return object;
}

__attribute__((noinline)) static void *of_group(size_t size)
{
    void *object = malloc(size);
    CHECK(object != NULL, "no object");
    return object;
}

int main(int count, char **arguments)
{
    static void *objects[2000];
    quarry_heap *heap = quarry_heap_create("profiled", 0);
    int group = quarry_group_create(0, "profiled", NULL);
    quarry_group_enter(group);
    for (size_t i = 0; i < LENGTH(objects); i++)
        objects[i] = i % 2 == 0 ? of_heap(heap, 1000 + i) : of_group(1000 + i);
    quarry_group_leave(0);
    if (count == 2 && strcmp(arguments[1], "free") == 0) {
        for (size_t i = 0; i < LENGTH(objects); i++)
            free(objects[i]);
    } else if (count == 2) {
        quarry_heap_destroy(heap);
    }
    return 0;
}
