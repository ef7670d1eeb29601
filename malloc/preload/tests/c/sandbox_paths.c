/*
 * Every slow path under a filter that a test has written to a file: start, growth, large blocks,
 * moves, trims, memory that goes back while the program is idle, figures, profiles, forks, threads
 * and exit. Makes no system call of its own beyond those of a program that starts and prints.
 * usage: sandbox_paths start|late|inside FILTER alone|many
 *   start: the filter is there before the program; late: the program installs it while it runs
 *   alone: the filter forbids new processes and threads
 */
#include "filter.h"
#include "load.h"
#include "memory.h"

#include <pthread.h>
#include <sys/wait.h>

int quarry_profile_start(size_t mean_bytes) __attribute__((weak));
void quarry_profile_stop(void) __attribute__((weak));
int quarry_profile_write(int fd) __attribute__((weak));

/* Opened before any filter. */
static int statm;

static size_t resident_now(void)
{
    char text[128] = {0};
    unsigned long resident;
    CHECK(pread(statm, text, sizeof(text) - 1, 0) > 0, "statm cannot be read");
    CHECK(sscanf(text, "%*u %lu", &resident) == 1, "strange statm: %s", text);
    return resident * PAGE;
}

static void install(const char *path, unsigned flags)
{
    static struct sock_filter steps[4096];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, steps, sizeof(steps));
    CHECK(bytes > 0 && (size_t)bytes < sizeof(steps), "no filter in %s", path);
    close(file);
    struct sock_fprog program = {(unsigned short)((size_t)bytes / sizeof(steps[0])), steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0, "seccomp");
}

static void *use_and_free(void *unused)
{
    bursts();
    resize();
    malloc_trim(0);
    return unused;
}

/* Frees 64 MiB, and waits until half of them have gone back. */
static void be_idle(void)
{
    static void *blocks[1024];
    size_t before = resident_now();
    for (size_t i = 0; i < LENGTH(blocks); i++)
        blocks[i] = memset(malloc(64 * KIB), 1, 64 * KIB);
    for (size_t i = 0; i < LENGTH(blocks); i++)
        free(blocks[i]);
    while (!testing_a_peer() && resident_now() > before + 32 * MIB) {
        nap_ms(5);
        /* Without a thread of its own Quarry gives memory back while the program frees. */
        if (getenv("TEST_NO_THREAD") != NULL)
            free(memset(malloc(3 * MIB), 1, 3 * MIB));
    }
}

static void figures(void)
{
    CHECK(mallinfo2().uordblks > 0, "nothing is in use");
    /* A profile lies in a memfd, as the statistics page does. */
    if (quarry_profile_start == NULL || getenv("TEST_NO_PROFILE") != NULL)
        return;
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(sink >= 0, "/dev/null");
    CHECK(quarry_profile_start(16 * KIB) == 0, "no profile");
    use_and_free(NULL);
    CHECK(quarry_profile_write(sink) == 0, "no profile is written");
    quarry_profile_stop();
    close(sink);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4, "usage: %s start|late|inside FILTER alone|many", argv[0]);
    if (strcmp(argv[1], "start") == 0) {
        char *arguments[] = {argv[0], "inside", argv[2], argv[3], NULL};
        install(argv[2], 0);
        execv("/proc/self/exe", arguments);
        CHECK(0, "execv");
    }
    require_quarry();
    statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CHECK(statm >= 0, "/proc/self/statm");
    if (strcmp(argv[1], "late") == 0) {
        bursts();
        install(argv[2], 0);
    }
    static struct heap heap;
    grow(&heap);
    use_and_free(NULL);
    shrink(&heap);
    be_idle();
    figures();
    if (strcmp(argv[3], "many") == 0) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
            use_and_free(NULL);
            be_idle();
            exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", status);
        pthread_t threads[3];
        for (size_t i = 0; i < LENGTH(threads); i++)
            CHECK(pthread_create(&threads[i], NULL, use_and_free, NULL) == 0, "pthread_create");
        for (size_t i = 0; i < LENGTH(threads); i++)
            pthread_join(threads[i], NULL);
        be_idle();
    }
    return 0;
}
