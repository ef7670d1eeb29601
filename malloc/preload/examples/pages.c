/*
 * A file of counters through the page cache: its hot pages stay in the memory that the heap does
 * not need, under the heap's own limit, and go back to the file when they are flushed.
 *
 *   cc -std=c99 -Imalloc/preload/include malloc/preload/examples/pages.c \
 *       -Ltarget/release -lquarry-full -Wl,-rpath,target/release -o pages
 */
#include <quarry.h>
#include <stdio.h>
#include <stdlib.h>

#define PER_PAGE (4096 / sizeof(unsigned))

/* Counts a visit; returns the number of visits, or 0 if there is no memory for the page. */
static unsigned visit(quarry_mapping *counters, unsigned long number)
{
    unsigned long index = number / PER_PAGE;
    quarry_page *page = quarry_page_read(counters, index);
    unsigned *counts, now;
    if (page == NULL)
        page = quarry_page_create(counters, index);
    if (page == NULL)
        return 0;
    quarry_page_lock(page, QUARRY_EXCLUSIVE);
    counts = quarry_page_bytes(page);
    now = ++counts[number % PER_PAGE];
    quarry_page_dirty(counters, page, 0);
    quarry_page_unlock(page, QUARRY_EXCLUSIVE);
    quarry_page_unpin(page);
    return now;
}

int main(void)
{
    FILE *file = tmpfile();
    quarry_mapping *counters;
    unsigned counted = 0, sum = 0, count;
    unsigned long i;
    if (file == NULL || (counters = quarry_mapping_open_fd(fileno(file), 0, 0)) == NULL)
        return EXIT_FAILURE;
    for (i = 0; i < 1000; i++)
        counted += visit(counters, i * i * 31 % 20000) > 0;
    printf("%u visits\n", counted);
    if (quarry_mapping_close(counters) != 0)
        return EXIT_FAILURE;
    while (fread(&count, sizeof(count), 1, file) == 1)
        sum += count;
    printf("of the file: %u visits\n", sum);
    fclose(file);
    return EXIT_SUCCESS;
}
