/*
 * Queries of a server, each with a heap of its own: a query that would take too much fails alone,
 * and all that it has allocated goes by one call.
 *
 *     cc queries.c -lquarry-full && ./a.out
 */
#include <errno.h>
#include <quarry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    struct row *next;
    char text[100];
};

/* Collects so many rows; returns how many it has collected before its memory ended. */
static size_t query(const char *name, size_t rows)
{
    quarry_heap *heap = quarry_heap_create(name, (size_t)1 << 20);
    struct row *first = NULL;
    size_t collected;
    if (heap == NULL)
        return 0;
    for (collected = 0; collected < rows; collected++) {
        struct row *row = (struct row *)quarry_heap_malloc(heap, sizeof(*row));
        if (row == NULL)
            break;
        strcpy(row->text, "a row");
        row->next = first;
        first = row;
    }
    if (collected == 10)
        free(first); /* An object may go alone, too. */
    printf("%s: %lu rows in %lu bytes\n", name, (unsigned long)collected,
           (unsigned long)quarry_heap_used(heap));
    quarry_heap_destroy(heap);
    return collected;
}

int main(void)
{
    if (query("small", 10) != 10)
        return 1;
    if (query("greedy", 1000000) == 1000000 || errno != ENOMEM)
        return 1;
    return 0;
}
