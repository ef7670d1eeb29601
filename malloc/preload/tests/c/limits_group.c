/*
 * usage: limits_group LIMIT_MIB alone|shared
 * The program asks for far more than the limit of its control group: malloc answers NULL with
 * ENOMEM before the kernel kills a process, all memory that it handed out can be touched, and freed
 * memory serves again, in other sizes too. `shared`: another process of the group holds a quarter
 * of the limit.
 */
#include "memory.h"

#include <signal.h>
#include <sys/wait.h>

static size_t fill(struct objects *objects, size_t size)
{
    for (;;) {
        errno = 0;
        unsigned char *start = malloc(size);
        if (start == NULL)
            break;
        CHECK(objects->count < objects->most, "no limit met after %zu bytes",
              objects->count * size);
        memset(start, 1, size);
        objects->all[objects->count++] = (struct object){start, size};
    }
    CHECK(errno == ENOMEM, "refused without ENOMEM");
    size_t bytes = objects->count * size;
    /* Small requests may still find room, or are refused as well; the program goes on. */
    free(malloc(100));
    while (objects->count > 0)
        free(objects->all[--objects->count].start);
    return bytes;
}

/* A process that holds memory until it is killed. */
static pid_t holder(size_t bytes)
{
    int ready[2];
    CHECK(pipe(ready) == 0, "pipe");
    pid_t pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid == 0) {
        unsigned char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        CHECK(start != MAP_FAILED && write(ready[1], "x", 1) == 1, "the holder has no memory");
        for (;;)
            pause();
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1, "the holder does not answer");
    return pid;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: %s LIMIT_MIB alone|shared", argv[0]);
    require_quarry();
    size_t limit = (size_t)atol(argv[1]) * MIB, least = limit / 2;
    struct objects objects = room_for(1u << 16);
    memset(objects.all, 1, objects.most * sizeof(struct object));
    pid_t other = 0;
    if (strcmp(argv[2], "shared") == 0) {
        other = holder(limit / 4);
        least = limit / 4;
    }
    CHECK(malloc(opaque_size(4 * limit)) == NULL && errno == ENOMEM, "four times the limit");
    static const size_t sizes[] = {MIB, 8 * KIB, 100 * KIB, 3 * MIB, 30 * KIB, 20 * MIB, 4 * KIB};
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        size_t held = fill(&objects, sizes[i]);
        printf("%zu KiB in objects of %zu\n", held / KIB, sizes[i]);
        CHECK(held <= limit, "%zu bytes under a limit of %zu", held, limit);
        CHECK(held >= least, "only %zu bytes in objects of %zu, limit %zu", held, sizes[i],
              limit);
    }
    if (other != 0) {
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
    }
    return 0;
}
