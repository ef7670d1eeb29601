/*
 * Passes wrong arguments to the functions of a cache, or to quarry_pages_free. Prints the address
 * first; a line and an abort are expected.
 */
#include "check.h"
#include <quarry.h>

static quarry_cache *recursive;

static void takes_another(void *object)
{
    (void)object;
    quarry_cache_alloc(recursive, 0);
}

int main(int count, char **arguments)
{
    const char *kind = count > 1 ? arguments[1] : "";
    quarry_cache *apples = quarry_cache_create("apples", 120, 0, NULL, QUARRY_NO_MERGE);
    quarry_cache *pears = quarry_cache_create("pears", 240, 0, NULL, QUARRY_NO_MERGE);
    char *apple = quarry_cache_alloc(apples, 0), *pear = quarry_cache_alloc(pears, 0);
    void *others[30];
    CHECK(quarry_cache_alloc_bulk(apples, 0, 30, others) == 30, "no objects");
    CHECK(apple != NULL && pear != NULL, "no objects");
    static char outside[64];
    void *pointer = NULL;
    if (strcmp(kind, "other") == 0)
        pointer = pear;
    else if (strcmp(kind, "inside") == 0)
        pointer = apple + 8;
    else if (strcmp(kind, "class") == 0)
        pointer = malloc(120);
    else if (strcmp(kind, "block") == 0)
        pointer = malloc(100000);
    else if (strcmp(kind, "foreign") == 0 || strncmp(kind, "no-reserve", 10) == 0)
        pointer = outside;
    else if (strcmp(kind, "reserve-of-malloc") == 0)
        pointer = malloc(1000);
    else if (strcmp(kind, "unregister") == 0)
        pointer = apple;
    else if (strcmp(kind, "unregister-number") == 0)
        pointer = (void *)0x12340;
    else if (strcmp(kind, "constructor") == 0)
        recursive = quarry_cache_create("plums", 120, 0, takes_another, 0);
    else if (strncmp(kind, "twice", 5) == 0 || strcmp(kind, "bulk") == 0)
        pointer = apple;
    else if (strcmp(kind, "gone") == 0)
        pointer = apple;
    else if (strcmp(kind, "pages-of-object") == 0)
        pointer = apple;
    else if (strcmp(kind, "pages-of-order") == 0)
        pointer = quarry_pages_alloc(3, 0);
    else if (strcmp(kind, "pages-inside") == 0)
        pointer = (char *)quarry_pages_alloc(3, 0) + PAGE;
    else
        return 2;
    printf("%p\n", pointer);
    fflush(stdout);
    if (strncmp(kind, "pages", 5) == 0) {
        quarry_pages_free(pointer, 2);
    } else if (strncmp(kind, "unregister", 10) == 0) {
        quarry_unregister(pointer);
    } else if (strcmp(kind, "constructor") == 0) {
        quarry_cache_alloc(recursive, 0);
    } else if (strstr(kind, "reserve") != NULL) {
        quarry_reserve_free(pointer);
    } else if (strcmp(kind, "gone") == 0) {
        quarry_cache_free(pears, pear);
        CHECK(quarry_cache_destroy(pears) == 0, "nothing is in use");
        quarry_cache_free(pears, pointer);
    } else if (strcmp(kind, "bulk") == 0) {
        void *objects[] = {apple, pear};
        quarry_cache_free_bulk(apples, 2, objects);
    } else {
        if (strncmp(kind, "twice", 5) == 0)
            quarry_cache_free(apples, pointer);
        if (strcmp(kind, "twice-late") == 0)
            quarry_cache_free_bulk(apples, 30, others);
        quarry_cache_free(apples, pointer);
    }
    puts("survived");
    return 0;
}
