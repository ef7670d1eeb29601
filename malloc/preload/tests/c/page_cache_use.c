/*
 * The page cache of quarry.h as it should be used, and each of its errors. The argument says which
 * part runs.
 */
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <quarry.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 40

/* A disk in memory that fails as it is told. */
struct disk {
    unsigned char bytes[PAGES * PAGE];
    unsigned long used;
    long most;
    int read_error;
    int write_error;
    unsigned long log;
    int syncs;
};

static unsigned long disk_size(void *context)
{
    return ((struct disk *)context)->used;
}

static long piece(struct disk *disk, unsigned long offset, size_t count)
{
    long moved = disk->most && count > (size_t)disk->most ? disk->most : (long)count;
    return offset + (unsigned long)moved > sizeof(disk->bytes)
               ? (long)(sizeof(disk->bytes) - offset)
               : moved;
}

static long disk_read(void *context, unsigned long offset, void *bytes, size_t count)
{
    struct disk *disk = context;
    long moved = piece(disk, offset, count);
    if (disk->read_error)
        return -disk->read_error;
    memcpy(bytes, disk->bytes + offset, (size_t)moved);
    return moved;
}

static long disk_write(void *context, unsigned long offset, const void *bytes, size_t count)
{
    struct disk *disk = context;
    long moved = piece(disk, offset, count);
    if (disk->write_error)
        return -disk->write_error;
    memcpy(disk->bytes + offset, bytes, (size_t)moved);
    if (offset + (unsigned long)moved > disk->used)
        disk->used = offset + (unsigned long)moved;
    return moved;
}

static int disk_may_write(void *context, unsigned long mark, int waits)
{
    (void)waits;
    return mark <= ((struct disk *)context)->log;
}

static int disk_sync(void *context)
{
    ((struct disk *)context)->syncs++;
    return 0;
}

static struct disk disk;

static quarry_mapping *opened(void)
{
    quarry_backing backing = {sizeof(backing), &disk,     disk_size, disk_read,
                              disk_write,      disk_may_write, disk_sync};
    disk.used = (PAGES / 2) * PAGE;
    disk.log = 100;
    for (unsigned long i = 0; i < disk.used; i++)
        disk.bytes[i] = (unsigned char)(i / PAGE * 7 + i % 251);
    quarry_mapping *mapping = quarry_mapping_open(&backing, 0);
    CHECK(mapping != NULL, "no mapping");
    return mapping;
}

static void change(quarry_mapping *mapping, unsigned long index, int value, unsigned long mark)
{
    quarry_page *page = quarry_page_read(mapping, index);
    CHECK(page != NULL, "no page %lu", index);
    CHECK(quarry_page_lock(page, QUARRY_EXCLUSIVE) == 0, "not locked");
    memset(quarry_page_bytes(page), value, PAGE);
    quarry_page_dirty(mapping, page, mark);
    quarry_page_unlock(page, QUARRY_EXCLUSIVE);
    quarry_page_unpin(page);
}

static void use(void)
{
    quarry_mapping *mapping = opened();
    disk.most = 1000;
    CHECK(quarry_page_get(mapping, 3) == NULL && errno == ENOENT, "not cached");
    for (unsigned long index = 0; index < PAGES / 2; index++) {
        quarry_page *page = quarry_page_read(mapping, index);
        CHECK(page != NULL, "no page %lu", index);
        CHECK(memcmp(quarry_page_bytes(page), disk.bytes + index * PAGE, PAGE) == 0, "bytes");
        quarry_page *again = quarry_page_get(mapping, index);
        CHECK(again == page, "the same page");
        quarry_page_unpin(again);
        quarry_page_pin(page);
        quarry_page_unpin(page);
        quarry_page_unpin(page);
    }
    CHECK(quarry_mapping_pages(mapping) == PAGES / 2, "all are cached");
    change(mapping, 4, 1, 0);
    change(mapping, 5, 2, 200);
    CHECK(quarry_mapping_flush(mapping, 0, PAGES) == -1 && errno == EAGAIN, "the log comes first");
    CHECK(disk.bytes[4 * PAGE + 9] == 1 && disk.bytes[5 * PAGE + 9] != 2, "one is written");
    disk.log = 200;
    CHECK(quarry_mapping_sync(mapping) == 0 && disk.syncs == 1, "synced");
    CHECK(disk.bytes[5 * PAGE + 9] == 2, "now both");
    quarry_page *made = quarry_page_create(mapping, PAGES / 2);
    CHECK(made != NULL, "no new page");
    CHECK(quarry_page_create(mapping, PAGES / 2) == NULL && errno == EBUSY, "it is there");
    quarry_page_unpin(made);
    CHECK(quarry_mapping_rekey(mapping, PAGES / 2, PAGES / 2 + 1) == 0, "rekeyed");
    CHECK(quarry_mapping_rekey(mapping, PAGES / 2, 1) == -1 && errno == ENXIO, "is gone");
    CHECK(quarry_mapping_invalidate(mapping, 0, PAGES, 0) == 1, "the dirty one stays");
    CHECK(quarry_mapping_pages(mapping) == 1, "alone");
    quarry_mapping_prefetch(mapping, 2, 5);
    CHECK(quarry_mapping_pages(mapping) == 6, "prefetched");
    CHECK(quarry_mapping_truncate(mapping, 4) == 0, "truncated");
    CHECK(quarry_mapping_pages(mapping) == 2, "two are left");
    CHECK(quarry_mapping_close(mapping) == 0, "closed");
    CHECK(quarry_mapping_close(NULL) == 0, "nothing to close");
}

static void errors(void)
{
    quarry_mapping *mapping = opened();
    errno = 0;
    quarry_page *page = quarry_page_read(mapping, 0);
    CHECK(page != NULL && errno == 0, "errno is the caller's");
    CHECK(quarry_page_lock(page, 0) == 0, "locked");
    CHECK(quarry_page_lock(page, QUARRY_EXCLUSIVE | QUARRY_TRY) == -1 && errno == EBUSY, "held");
    CHECK(quarry_page_lock(page, QUARRY_TRY) == 0, "readers share");
    quarry_page_unlock(page, 0);
    quarry_page_unlock(page, 0);
    quarry_page_unpin(page);
    quarry_page_unpin(NULL);
    CHECK(quarry_page_read(mapping, PAGES) == NULL && errno == ENXIO, "behind the end");
    static const unsigned long beyond[] = {1ul << 51, 1ul << 52, 1ul << 63, ~0ul};
    for (size_t at = 0; at < sizeof(beyond) / sizeof(beyond[0]); at++) {
        unsigned long index = beyond[at];
        CHECK(quarry_page_create(mapping, index) == NULL && errno == ENXIO, "no file has it");
        CHECK(quarry_page_read(mapping, index) == NULL && errno == ENXIO, "nor can it be read");
        CHECK(quarry_page_get(mapping, index) == NULL && errno == ENOENT, "it is not cached");
        CHECK(quarry_mapping_rekey(mapping, 0, index) == -1 && errno == ENXIO, "no such index");
        CHECK(quarry_mapping_flush(mapping, index, ~0ul) == 0, "nothing is dirty there");
        CHECK(quarry_mapping_invalidate(mapping, index, 1, QUARRY_DIRTY_TOO) == 0, "nor cached");
        CHECK(quarry_mapping_truncate(mapping, index) == 0, "nor dropped");
        quarry_mapping_prefetch(mapping, index, ~0ul);
    }
    CHECK(quarry_mapping_invalidate(mapping, 0, PAGES, QUARRY_DIRTY_TOO) == 0, "dropped");
    disk.read_error = EIO;
    CHECK(quarry_page_read(mapping, 7) == NULL && errno == EIO, "refused");
    CHECK(quarry_page_get(mapping, 7) == NULL && errno == ENOENT, "and not cached");
    disk.read_error = 0;
    change(mapping, 7, 9, 0);
    disk.write_error = ENOSPC;
    CHECK(quarry_mapping_flush(mapping, 0, PAGES) == -1 && errno == ENOSPC, "refused");
    CHECK(quarry_mapping_close(mapping) == -1 && errno == ENOSPC, "and lost");
    quarry_backing none = {sizeof(none), NULL, NULL, NULL, NULL, NULL, NULL};
    CHECK(quarry_mapping_open(&none, 0) == NULL && errno == EINVAL, "no functions");
    none.struct_size = 3;
    CHECK(quarry_mapping_open(&none, 0) == NULL && errno == EINVAL, "no such struct");
    CHECK(quarry_mapping_open(NULL, 0) == NULL && errno == EINVAL, "no struct");
    quarry_backing some = {sizeof(some), &disk, disk_size, disk_read, NULL, NULL, NULL};
    CHECK(quarry_mapping_open(&some, 5) == NULL && errno == EINVAL, "no such order");
    CHECK(quarry_mapping_open(&some, 300) == NULL && errno == EINVAL, "no such order");
    CHECK(quarry_mapping_open_fd(-1, 0, 0) == NULL && errno == EBADF, "no descriptor");
    CHECK(quarry_mapping_open_fd(0, 0, 8) == NULL && errno == EINVAL, "no such flag");
    int copy = dup(STDERR_FILENO);
    CHECK(quarry_mapping_open_fd(copy, 300, QUARRY_OWN_FD) == NULL && errno == EINVAL, "no order");
    CHECK(close(copy) == -1 && errno == EBADF, "closed, as it says");
}

static void files(void)
{
    char name[] = "page-cache-use-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0, "no file");
    quarry_mapping *mapping = quarry_mapping_open_fd(dup(fd), 2, QUARRY_OWN_FD);
    CHECK(mapping != NULL, "no mapping");
    for (unsigned long index = 0; index < 10; index++) {
        quarry_page *page = quarry_page_create(mapping, index);
        CHECK(page != NULL, "no page %lu", index);
        memset(quarry_page_bytes(page), (int)index + 1, 4 * PAGE);
        quarry_page_unpin(page);
    }
    CHECK(quarry_mapping_close(mapping) == 0, "closed");
    for (unsigned long index = 0; index < 10; index++) {
        unsigned char bytes[4 * PAGE];
        CHECK(pread(fd, bytes, sizeof(bytes), (long)(index * sizeof(bytes))) == sizeof(bytes),
              "read back");
        CHECK(bytes[0] == index + 1 && bytes[sizeof(bytes) - 1] == index + 1, "page %lu", index);
    }
    CHECK(close(fd) == 0, "it is ours");
}

static void *churn(void *argument)
{
    quarry_mapping *mapping = argument;
    for (unsigned round = 0; round < 4000; round++) {
        unsigned long index = (round * 7919u) % (PAGES / 2);
        quarry_page *page = quarry_page_read(mapping, index);
        CHECK(page != NULL, "no page %lu", index);
        unsigned flags = round % 3 == 0 ? QUARRY_EXCLUSIVE : 0;
        quarry_page_lock(page, flags);
        unsigned char *bytes = quarry_page_bytes(page);
        CHECK(bytes[0] == bytes[PAGE - 1] && bytes[0] == bytes[PAGE / 2], "half a change");
        if (flags) {
            memset(bytes, (int)round, PAGE);
            quarry_page_dirty(mapping, page, 0);
        }
        quarry_page_unlock(page, flags);
        quarry_page_unpin(page);
        if (round % 64 == 0)
            quarry_mapping_invalidate(mapping, 0, PAGES, 0);
        if (round % 128 == 0)
            CHECK(quarry_mapping_flush(mapping, 0, PAGES) == 0, "flushed");
    }
    return NULL;
}

static void threads(void)
{
    quarry_mapping *mapping = opened();
    for (unsigned long index = 0; index < PAGES / 2; index++)
        change(mapping, index, 3, 0);
    pthread_t others[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&others[i], NULL, churn, mapping) == 0, "no thread");
    churn(mapping);
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    CHECK(quarry_mapping_close(mapping) == 0, "closed");
    for (unsigned long index = 0; index < PAGES / 2; index++) {
        unsigned char *bytes = disk.bytes + index * PAGE;
        CHECK(bytes[0] == bytes[PAGE - 1] && bytes[0] == bytes[1000], "half a page");
    }
}

static void forks(void)
{
    quarry_mapping *mapping = opened();
    change(mapping, 1, 5, 0);
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        quarry_page *page = quarry_page_get(mapping, 1);
        CHECK(page != NULL, "what is cached is found");
        CHECK(((unsigned char *)quarry_page_bytes(page))[7] == 5, "with the parent's bytes");
        quarry_page_unpin(page);
        CHECK(quarry_page_read(mapping, 9) == NULL && errno == ESTALE, "nothing is read");
        CHECK(quarry_mapping_flush(mapping, 0, PAGES) == -1 && errno == ESTALE, "nor written");
        CHECK(quarry_mapping_close(mapping) == 0, "closed");
        CHECK(disk.bytes[PAGE + 7] != 5, "without writing");
        use();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child fails");
    CHECK(quarry_mapping_close(mapping) == 0 && disk.bytes[PAGE + 7] == 5, "the parent writes");
}

static void disabled(void)
{
    quarry_backing some = {sizeof(some), &disk, disk_size, disk_read, NULL, NULL, NULL};
    CHECK(quarry_mapping_open(&some, 0) == NULL && errno == ENOTSUP, "the C library serves");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"use", use},         {"errors", errors}, {"files", files},
                 {"threads", threads}, {"forks", forks},   {"disabled", disabled}};
    CHECK(argc == 2, "which part?");
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (strcmp(argv[1], parts[i].name) == 0) {
            parts[i].run();
            return 0;
        }
    }
    CHECK(0, "no part %s", argv[1]);
}
