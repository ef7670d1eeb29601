/* Shared by the memory tests: figures of the kernel, and objects of mixed sizes. */
#ifndef QUARRY_TEST_MEMORY_H
#define QUARRY_TEST_MEMORY_H

#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

/* The number after `name` in a file of lines `name: number` or `name number`, or -1. */
static UNUSED long field_of(const char *path, const char *name)
{
    char text[8192];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t length = read(file, text, sizeof(text) - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *found = strstr(text, name);
    return found == NULL ? -1 : strtol(found + strlen(name), NULL, 10);
}

/*
 * Where the system makes huge pages unasked, a touched page of a large block takes 2 MiB with any
 * allocator. Forbids these; before Linux 6.18 also the huge pages that Quarry asks for.
 */
static UNUSED void no_unasked_huge_pages(void)
{
    enum { EXCEPT_ADVISED = 1 << 1 };
    if (field_of("/sys/kernel/mm/transparent_hugepage/enabled", "[always]") < 0)
        return;
    CHECK(prctl(PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0) == 0 ||
              prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0,
          "THP_DISABLE");
}

/* The peak of the resident memory of this process, in bytes; the peak can be reset. */
static UNUSED size_t peak_bytes(void)
{
    return (size_t)field_of("/proc/self/status", "VmHWM:") * KIB;
}

static UNUSED void reset_peak(void)
{
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    CHECK(file >= 0 && write(file, "5", 1) == 1, "clear_refs");
    close(file);
}

/* Minor faults of the calling thread only: the background thread has faults of its own. */
static UNUSED long minor_faults(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0, "getrusage");
    return usage.ru_minflt;
}

static UNUSED unsigned threads_now(void)
{
    return (unsigned)field_of("/proc/self/status", "Threads:");
}

static UNUSED void *end_at_once(void *unused)
{
    return unused;
}

/* Starts a thread, which ends: from then on the C library takes the process for one with several
 * threads, and the background thread is one that stays. */
static UNUSED void have_had_a_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, end_at_once, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
}

/* Frees enough to start the background thread; demands that `threads` threads exist then. In a
 * process that never had several threads it may have ended already. */
static UNUSED void give_a_thread_reason(unsigned threads)
{
    static void *blocks[48];
    for (size_t i = 0; i < LENGTH(blocks); i++)
        blocks[i] = memset(malloc(MIB), 1, MIB);
    for (size_t i = 0; i < LENGTH(blocks); i++)
        free(blocks[i]);
    CHECK(testing_a_peer() || threads_now() == threads, "%u threads", threads_now());
}

/*
 * Memory that the kernel charges to us: to the control group that the test has made for this
 * process, or else all memory of the machine that is not free.
 */
static UNUSED int has_group(void)
{
    return getenv("TEST_GROUP_USAGE") != NULL;
}

static UNUSED size_t charged_bytes(void)
{
    const char *group = getenv("TEST_GROUP_USAGE");
    if (group != NULL) {
        long usage = field_of(group, "");
        CHECK(usage >= 0, "%s cannot be read", group);
        return (size_t)usage;
    }
    const char *file = "/proc/meminfo";
    long total = field_of(file, "MemTotal:"), free = field_of(file, "MemFree:");
    return (size_t)(total - free) * KIB;
}

/*
 * Bytes that are not resident in ranges with huge pages enabled: khugepaged makes them resident, 16
 * MiB every ten seconds.
 */
static UNUSED size_t huge_holes(void)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    CHECK(maps != NULL, "smaps");
    char line[512];
    size_t size = 0, resident = 0, holes = 0;
    while (fgets(line, sizeof(line), maps) != NULL) {
        sscanf(line, "Size: %zu kB", &size);
        sscanf(line, "Rss: %zu kB", &resident);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL)
            holes += (size - resident) * KIB;
    }
    fclose(maps);
    return holes;
}

static UNUSED double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static UNUSED void nap_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* A table of objects with their sizes, outside the heap under test. */
struct object {
    unsigned char *start;
    size_t size;
};

struct objects {
    struct object *all;
    size_t count, most, bytes;
};

static UNUSED struct objects room_for(size_t most)
{
    struct objects objects = {NULL, 0, most, 0};
    objects.all = mmap(NULL, most * sizeof(struct object), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(objects.all != MAP_FAILED, "no room for %zu objects", most);
    /* Else its end may be in a huge page, which has 32 MiB where pages have 16 KiB. */
    madvise(objects.all, most * sizeof(struct object), MADV_NOHUGEPAGE);
    return objects;
}

/* Resident memory of the table itself. */
static UNUSED size_t table_bytes(const struct objects *objects)
{
    return objects->count * sizeof(struct object);
}

static UNUSED void add_object(struct objects *objects, size_t size)
{
    CHECK(objects->count < objects->most, "more than %zu objects", objects->most);
    unsigned char *start = malloc(size);
    CHECK(start != NULL, "malloc(%zu) after %zu bytes", size, objects->bytes);
    memset(start, (int)(objects->count & 0x7f) + 1, size);
    objects->all[objects->count++] = (struct object){start, size};
    objects->bytes += size;
}

static UNUSED void free_object(struct objects *objects, size_t index)
{
    struct object *object = &objects->all[index];
    CHECK(object->start[0] == object->start[object->size - 1], "object %zu of %zu bytes changed",
          index, object->size);
    free(object->start);
    objects->bytes -= object->size;
    *object = (struct object){NULL, 0};
}

/* Bytes of the pages that contain objects. */
static UNUSED size_t pages_under(const struct objects *objects)
{
    uintptr_t first = UINTPTR_MAX, last = 0;
    for (size_t i = 0; i < objects->count; i++) {
        uintptr_t start = (uintptr_t)objects->all[i].start;
        if (start == 0)
            continue;
        first = start < first ? start : first;
        last = start + objects->all[i].size > last ? start + objects->all[i].size : last;
    }
    const size_t bytes = system_page();
    size_t span = last / bytes - first / bytes + 1, pages = 0;
    unsigned char *seen = mmap(NULL, span, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(seen != MAP_FAILED, "no room for %zu pages", span);
    for (size_t i = 0; i < objects->count; i++) {
        uintptr_t start = (uintptr_t)objects->all[i].start, end = start + objects->all[i].size;
        for (uintptr_t page = start / bytes; start != 0 && page <= (end - 1) / bytes; page++) {
            pages += !seen[page - first / bytes];
            seen[page - first / bytes] = 1;
        }
    }
    munmap(seen, span);
    return pages * bytes;
}

/* A random size: each power of two from `smallest` on, below `largest`, gets as many objects. */
static UNUSED size_t same_count(uint64_t *random, size_t smallest, size_t largest)
{
    unsigned powers = (unsigned)__builtin_ctzl(largest) - (unsigned)__builtin_ctzl(smallest);
    size_t least = smallest << (next_random(random) % powers);
    return least + next_random(random) % least;
}

static UNUSED void shuffle(struct objects *objects, uint64_t *random)
{
    for (size_t i = objects->count; i > 1; i--) {
        size_t other = next_random(random) % i;
        struct object swap = objects->all[i - 1];
        objects->all[i - 1] = objects->all[other];
        objects->all[other] = swap;
    }
}

/* Number of the kernel's mappings in this process. */
static UNUSED size_t mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "/proc/self/maps");
    size_t lines = 0;
    for (int c; (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

#endif
