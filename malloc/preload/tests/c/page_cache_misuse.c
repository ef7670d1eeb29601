/*
 * Passes wrong arguments to the page cache. A line and an abort are expected.
 */
#include "check.h"
#include <pthread.h>
#include <quarry.h>

static unsigned long size(void *context)
{
    (void)context;
    return 64 * PAGE;
}

static long zeroes(void *context, unsigned long offset, void *bytes, size_t count)
{
    (void)context;
    (void)offset;
    memset(bytes, 0, count);
    return (long)count;
}

static void *lock(void *page)
{
    CHECK(quarry_page_lock(page, QUARRY_EXCLUSIVE) == 0, "locked");
    return NULL;
}

int main(int count, char **arguments)
{
    const char *kind = count > 1 ? arguments[1] : "";
    quarry_backing backing = {sizeof(backing), NULL, size, zeroes, NULL, NULL, NULL};
    quarry_mapping *mapping = quarry_mapping_open(&backing, 0);
    CHECK(mapping != NULL, "no mapping");
    quarry_page *page = quarry_page_read(mapping, 3);
    CHECK(page != NULL, "no page");
    if (strcmp(kind, "unpin-twice") == 0) {
        /* The page is in the add batch of the CPU, which pins it. */
        quarry_page_unpin(page);
        quarry_page_unpin(page);
        /* Without a check, this call would wait for ever. */
        quarry_mapping_truncate(mapping, 0);
    } else if (strcmp(kind, "unpin-listed") == 0) {
        malloc_trim(0);
        quarry_page_unpin(page);
        quarry_page_unpin(page);
    } else if (strcmp(kind, "pin-none") == 0) {
        quarry_page_pin(NULL);
    } else if (strcmp(kind, "bytes-none") == 0) {
        quarry_page_bytes(NULL);
    } else if (strcmp(kind, "lock-other") == 0) {
        quarry_page_lock((quarry_page *)mapping, 0);
    } else if (strcmp(kind, "unlock") == 0) {
        quarry_page_unlock(page, 0);
    } else if (strcmp(kind, "unlock-exclusive") == 0) {
        CHECK(quarry_page_lock(page, 0) == 0, "locked");
        quarry_page_unlock(page, QUARRY_EXCLUSIVE);
    } else if (strcmp(kind, "unlock-thread") == 0) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, lock, page) == 0, "a thread");
        CHECK(pthread_join(other, NULL) == 0, "it ends");
        quarry_page_unlock(page, QUARRY_EXCLUSIVE);
    } else if (strcmp(kind, "dirty-mapping") == 0) {
        quarry_mapping *other = quarry_mapping_open(&backing, 0);
        CHECK(other != NULL, "no mapping");
        quarry_page_dirty(other, page, 0);
    } else if (strcmp(kind, "dirty-unpinned") == 0) {
        quarry_page_unpin(page);
        quarry_page_dirty(mapping, page, 0);
    } else {
        return 2;
    }
    puts("survived");
    return 0;
}
