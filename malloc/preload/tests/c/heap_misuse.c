/* Uses a heap or its memory wrongly. Prints an address first; a line and an abort are expected. */
#include "check.h"
#include <pthread.h>
#include <quarry.h>

static quarry_heap *heap;

static void *takes(void *unused)
{
    for (;;)
        quarry_heap_malloc(heap, 100);
    return unused;
}

int main(int count, char **arguments)
{
    const char *kind = count > 1 ? arguments[1] : "";
    heap = quarry_heap_create("apples", 0);
    char *apple = opaque(quarry_heap_malloc(heap, 100)), *block = quarry_heap_malloc(heap, 100000);
    char *others[1000];
    for (int i = 0; i < 1000; i++)
        others[i] = quarry_heap_malloc(heap, 100);
    printf("%p\n", strstr(kind, "block") ? (void *)block : (void *)apple);
    fflush(stdout);
    if (strncmp(kind, "gone", 4) == 0 || strcmp(kind, "twice-destroyed") == 0) {
        quarry_heap_destroy(heap);
        /* What comes and goes meanwhile takes nothing of the dead heap. */
        for (int i = 0; i < 100; i++) {
            quarry_heap *other = quarry_heap_create("pears", 0);
            CHECK(quarry_heap_malloc(other, 100) != apple, "the memory serves again");
            quarry_heap_destroy(other);
            free(malloc(5000));
        }
    }
    if (strcmp(kind, "gone") == 0)
        quarry_heap_malloc(heap, 1);
    else if (strcmp(kind, "gone-calloc") == 0)
        quarry_heap_calloc(heap, 1, 1);
    else if (strcmp(kind, "gone-reset") == 0)
        quarry_heap_reset(heap);
    else if (strcmp(kind, "gone-used") == 0)
        quarry_heap_used(heap);
    else if (strcmp(kind, "twice-destroyed") == 0)
        quarry_heap_destroy(heap);
    else if (strcmp(kind, "gone-free") == 0)
        free(opaque(apple));
    else if (strcmp(kind, "gone-free-block") == 0)
        free(opaque(block));
    else if (strcmp(kind, "gone-realloc") == 0)
        apple = realloc(opaque(apple), 200);
    else if (strcmp(kind, "gone-usable") == 0)
        malloc_usable_size(opaque(apple));
    else if (strcmp(kind, "twice") == 0 || strcmp(kind, "twice-later") == 0) {
        char *again = opaque(apple);
        free(apple);
        for (int i = 0; strcmp(kind, "twice-later") == 0 && i < 1000; i++)
            free(others[i]);
        free(again);
    } else if (strcmp(kind, "inside") == 0)
        free(opaque(apple + 16));
    else if (strcmp(kind, "inside-block") == 0)
        free(opaque(block + PAGE));
    else if (strcmp(kind, "reset") == 0) {
        quarry_heap_reset(heap);
        free(opaque(apple));
    } else if (strcmp(kind, "number") == 0)
        quarry_heap_malloc((quarry_heap *)0x123456789ab, 1);
    else if (strcmp(kind, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, takes, NULL);
        while (quarry_heap_used(heap) < MIB)
            ;
        quarry_heap_destroy(heap);
        pthread_join(thread, NULL);
    } else
        return 2;
    printf("survived\n");
    return 0;
}
