/*
 * usage: limits_files released|descriptors|high|cache|dirty 1|2
 * A control group of version 1 or 2 that consists of plain files: the program mounts them over the
 * real ones and writes the figures itself. Exits with 77 and a reason where it may not mount.
 */
#include "memory.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define GROUPS "/sys/fs/cgroup"

static int version;

/* Figures of the group; `others` is its use without this process. */
static struct figures {
    size_t limit, high, others, active, dirty;
} group;

/* True if no further file can be opened. */
static int is_sealed;

__attribute__((format(printf, 2, 3))) static void write_file(const char *path, const char *format,
                                                             ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(file >= 0 && write(file, text, (size_t)length) == length, "%s", path);
    close(file);
}

static void publish(void)
{
    if (is_sealed)
        return;
    size_t usage = group.others + resident_bytes();
    if (version == 1) {
        write_file(GROUPS "/memory/g/memory.limit_in_bytes", "%zu\n", group.limit);
        write_file(GROUPS "/memory/g/memory.usage_in_bytes", "%zu\n", usage);
        write_file(GROUPS "/memory/g/memory.stat",
                   "dirty 0\nactive_file 0\ntotal_dirty %zu\ntotal_inactive_file 0\n"
                   "total_active_file %zu\n",
                   group.dirty, group.active);
        return;
    }
    if (group.limit == 0)
        write_file(GROUPS "/g/memory.max", "max\n");
    else
        write_file(GROUPS "/g/memory.max", "%zu\n", group.limit);
    if (group.high != 0)
        write_file(GROUPS "/g/memory.high", "%zu\n", group.high);
    write_file(GROUPS "/g/memory.current", "%zu\n", usage);
    write_file(GROUPS "/g/memory.stat",
               "anon 0\nfile_dirty %zu\ninactive_file 0\nactive_file %zu\n", group.dirty,
               group.active);
}

static int hide_groups(void)
{
    if (unshare(CLONE_NEWNS) != 0) {
        unsigned user = getuid(), users = getgid();
        if (unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0)
            return 0;
        /* A user without a number in the namespace may not make files. */
        write_file("/proc/self/setgroups", "deny");
        write_file("/proc/self/uid_map", "0 %u 1\n", user);
        write_file("/proc/self/gid_map", "0 %u 1\n", users);
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 0;
    if (mount("none", GROUPS, "tmpfs", 0, NULL) != 0)
        return 0;
    CHECK(mkdir(GROUPS "/memory", 0755) == 0 && mkdir(GROUPS "/memory/g", 0755) == 0, "mkdir");
    CHECK(mkdir(GROUPS "/g", 0755) == 0, "mkdir");
    write_file(GROUPS "/self", version == 1 ? "4:cpu,memory:/g\n0::/\n" : "0::/g\n");
    return mount(GROUPS "/self", "/proc/self/cgroup", NULL, MS_BIND, NULL) == 0;
}

/* Allocates and touches small objects until there are no more, or `most` bytes; they stay. */
static size_t fill(size_t most)
{
    size_t bytes = 0;
    for (; bytes < most; bytes += 4000) {
        errno = 0;
        void *object = malloc(4000);
        if (object == NULL) {
            CHECK(errno == ENOMEM, "refused without ENOMEM");
            break;
        }
        memset(object, 1, 4000);
        if (bytes % (4000 * 64) == 0)
            publish();
    }
    return bytes;
}

/* Small requests can use the memory that a neighbour has released, too. */
static void released(void)
{
    group = (struct figures){.limit = 256 * MIB, .others = 200 * MIB};
    publish();
    size_t first = fill(256 * MIB);
    CHECK(first >= 16 * MIB && first <= 64 * MIB, "%zu bytes beside 200 MiB of 256", first);
    group.others = first + 8 * MIB;
    publish();
    double start = seconds_now();
    while (opaque(malloc(4000)) == NULL) {
        CHECK(seconds_now() - start < 5, "nothing is left %f s after others released theirs",
              seconds_now() - start);
        nap_ms(1);
    }
    size_t more = fill(60 * MIB);
    CHECK(more >= 60 * MIB, "only %zu bytes more of 190 MiB", more);
}

/* Without descriptors the files cannot be read: the last known limit applies. */
static void descriptors(void)
{
    group = (struct figures){.limit = 128 * MIB, .others = 20 * MIB};
    publish();
    size_t bytes = fill(16 * MIB);
    CHECK(bytes >= 16 * MIB, "only %zu bytes", bytes);
    struct rlimit few = {64, 64};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
    int first = open("/dev/null", O_RDONLY | O_CLOEXEC), last = first;
    for (int file = first; file >= 0; file = open("/dev/null", O_RDONLY | O_CLOEXEC))
        last = file;
    CHECK(errno == EMFILE, "there are descriptors left");
    is_sealed = 1;
    bytes += fill(256 * MIB);
    CHECK(bytes <= 128 * MIB, "%zu bytes under a limit of 128 MiB", bytes);
    CHECK(bytes >= 64 * MIB, "only %zu bytes of 128 MiB", bytes);
    CHECK(malloc(opaque_size(512 * MIB)) == NULL && errno == ENOMEM, "four times the limit");
    while (last >= first)
        close(last--);
}

/* Beyond memory.high the kernel slows a group down and refuses nothing. */
static void high(void)
{
    group = (struct figures){.high = 48 * MIB, .others = 40 * MIB};
    publish();
    size_t bytes = fill(160 * MIB);
    CHECK(bytes >= 160 * MIB, "memory.high of 48 MiB allows %zu bytes", bytes);
}

/* The kernel drops page cache even if it is in use. */
static void cache(void)
{
    group = (struct figures){
        .limit = 192 * MIB, .others = 180 * MIB, .active = 150 * MIB, .dirty = 10 * MIB};
    publish();
    size_t bytes = fill(96 * MIB);
    CHECK(bytes >= 96 * MIB, "%zu bytes beside 140 MiB of clean cache", bytes);
}

/* Pages that have to be written first are not free at once. */
static void dirty(void)
{
    group = (struct figures){
        .limit = 192 * MIB, .others = 180 * MIB, .active = 150 * MIB, .dirty = 148 * MIB};
    publish();
    size_t bytes = fill(96 * MIB);
    CHECK(bytes <= 40 * MIB, "%zu bytes beside 148 MiB of dirty cache", bytes);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"released", released},
                 {"descriptors", descriptors},
                 {"high", high},
                 {"cache", cache},
                 {"dirty", dirty}};
    CHECK(argc == 3, "usage: %s CASE 1|2", argv[0]);
    require_quarry();
    version = atoi(argv[2]);
    if (!hide_groups()) {
        printf("cannot mount over %s: %s\n", GROUPS, strerror(errno));
        return 77;
    }
    for (size_t i = 0; i < LENGTH(cases); i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            cases[i].run();
    return 0;
}
