/* vfork and exec, posix_spawn, popen, system: the child lives in our memory for a moment. */
#include "check.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

extern char **environ;

static atomic_int stop;

static void *churn(void *unused)
{
    uint64_t random = 5;
    while (!atomic_load(&stop)) {
        size_t size = random_size(&random, 100000);
        void *object = malloc(size);
        CHECK(object != NULL, "malloc(%zu)", size);
        pattern_fill(object, size, size);
        CHECK_PATTERN(object, size, size);
        free(object);
    }
    return unused;
}

static void await(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x", status);
}

int main(void)
{
    require_quarry();
#ifndef __GLIBC__
    /* The programs below are of another C library. */
    CHECK(unsetenv("LD_PRELOAD") == 0, "unsetenv");
#endif
    char *const arguments[] = {"true", NULL};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, churn, NULL) == 0, "pthread_create");
    for (int round = 0; round < 40; round++) {
        void *object = malloc((size_t)round * 1000 + 1);
        CHECK(object != NULL, "malloc");
        pattern_fill(object, (size_t)round * 1000 + 1, 9);
        pid_t child = vfork();
        CHECK(child >= 0, "vfork");
        if (child == 0) {
            execve("/bin/true", arguments, environ);
            _exit(127);
        }
        await(child);
        CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0,
              "posix_spawn");
        await(child);
        CHECK_PATTERN(object, (size_t)round * 1000 + 1, 9);
        free(object);
    }
    for (int round = 0; round < 5; round++) {
        char line[64] = {0};
        FILE *pipe = popen("echo from the shell", "r");
        CHECK(pipe != NULL, "popen");
        CHECK(fgets(line, sizeof(line), pipe) != NULL, "no line from the shell");
        CHECK(strcmp(line, "from the shell\n") == 0, "the shell said `%s`", line);
        CHECK(pclose(pipe) == 0, "pclose");
        CHECK(system("exit 0") == 0, "system");
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    return 0;
}
