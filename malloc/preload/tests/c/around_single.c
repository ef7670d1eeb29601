/*
 * A process with one thread keeps one, for all that it and the C library can tell, although its
 * memory goes back while it is idle.
 * usage: around_single idle|sparse|fork|unshare|user|beside|signals|ends
 * Exits with 77 and a reason where this user or kernel does not allow what is tested.
 */
#include "deadline.h"
#include "memory.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>

enum { COUNT = 1 << 16, SIZE = 1000, NOBODY = 65534 };

static char *objects[COUNT];

/* Frees 64 MiB of small objects. */
static void come_and_go(void)
{
    for (size_t i = 0; i < COUNT; i++)
        objects[i] = memset(malloc(SIZE), 1, SIZE);
    for (size_t i = 0; i < COUNT; i++)
        free(objects[i]);
}

static size_t at_start;

static void wait_until_memory_is_back(void)
{
    while (!testing_a_peer() && resident_bytes() > at_start + 16 * MIB)
        nap_ms(1);
}

static void expect_one_thread(const char *when)
{
    CHECK(testing_a_peer() || __libc_single_threaded, "several threads for the C library %s", when);
    CHECK(threads_now() == 1, "%u threads %s", threads_now(), when);
}

/* The other thread ends by itself, and has not written to this one's errno. */
static void idle(void)
{
    for (int round = 0; round < 3; round++) {
        come_and_go();
        errno = EXDEV;
        while (!testing_a_peer() && resident_bytes() > at_start + 16 * MIB)
            CHECK(errno == EXDEV, "errno is %d", errno);
        while (threads_now() != 1)
            nap_ms(1);
        expect_one_thread("in an idle program");
    }
}

static void wait_for_child(pid_t child)
{
    int status = 0;
    CHECK(child > 0, "fork: %s", strerror(errno));
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", status);
}

/* Survivors keep every slab: their neighbours go back, and the thread does not wait for more. */
static void sparse(void)
{
    for (size_t i = 0; i < COUNT; i++)
        objects[i] = memset(malloc(SIZE), 1, SIZE);
    for (size_t i = 0; i < COUNT; i++)
        if (i % 500 != 0)
            free(objects[i]);
    wait_until_memory_is_back();
    while (threads_now() != 1)
        nap_ms(1);
    expect_one_thread("beside survivors");
}

/* A fork finds one thread at any moment; parent and child go on, and give memory back. */
static void forks(void)
{
    for (int round = 0; round < 12; round++) {
        come_and_go();
        nap_ms(round);
        pid_t child = fork();
        expect_one_thread(child == 0 ? "in the child" : "after a fork");
        if (child == 0) {
            at_start = resident_bytes();
            come_and_go();
            check_heap("in a child");
            wait_until_memory_is_back();
            exit(0);
        }
        wait_for_child(child);
    }
    CHECK(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD, "there is another child");
    /* A fork has ended the thread; the program goes on allocating, and another one starts. */
    come_and_go();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    wait_for_child(child);
    while (!testing_a_peer() && resident_bytes() > at_start + 16 * MIB) {
        nap_ms(1);
        free(memset(malloc(2 * MIB), 1, 2 * MIB));
    }
}

/* Exits with 77 where the kernel refuses a namespace to every process. */
static void unshares(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child: %#x", status);
    if (WEXITSTATUS(status) != 0) {
        printf("unshare(CLONE_NEWUSER): %s\n", strerror(WEXITSTATUS(status)));
        exit(77);
    }
    come_and_go();
    CHECK(unshare(CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER): %s", strerror(errno));
    expect_one_thread("after unshare");
    come_and_go();
    wait_until_memory_is_back();
}

/* A thread that was started as root is gone soon after the program has become another user. */
static void becomes_another_user(void)
{
    if (geteuid() != 0) {
        printf("this user has no rights to give up\n");
        exit(77);
    }
    come_and_go();
    CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "setuid");
    wait_until_memory_is_back();
    while (threads_now() != 1)
        nap_ms(1);
}

static void *work(void *unused)
{
    for (int round = 0; round < 20; round++) {
        void *large = memset(malloc(5 * MIB), 1, 5 * MIB);
        for (size_t i = 0; i < 2000; i++)
            free(memset(malloc(i + 1), 1, i + 1));
        free(large);
    }
    return unused;
}

/* The program starts threads of its own while the other thread is there, in every phase of it. */
static void beside(void)
{
    for (int round = 0; round < 8; round++) {
        pid_t child = fork();
        if (child == 0) {
            come_and_go();
            nap_ms(round);
            pthread_t threads[3];
            for (size_t i = 0; i < LENGTH(threads); i++)
                CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
            come_and_go();
            for (size_t i = 0; i < LENGTH(threads); i++)
                pthread_join(threads[i], NULL);
            check_heap("beside threads");
            free(memset(malloc(5 * MIB), 1, 5 * MIB));
            wait_until_memory_is_back();
            exit(0);
        }
        wait_for_child(child);
    }
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
    (void)number;
    CHECK(gettid() == getpid(), "a handler runs on another thread");
    handled++;
}

/*
 * Signals to the process reach the program's thread only. They interrupt slow paths too, so their
 * handler does not allocate.
 */
static void signals(void)
{
    signal(SIGUSR1, handle);
    pid_t child = fork();
    if (child == 0) {
        pid_t parent = getppid();
        while (kill(parent, SIGUSR1) == 0 && getppid() == parent)
            nap_ms(1);
        _exit(0);
    }
    for (int round = 0; round < 5; round++) {
        come_and_go();
        wait_until_memory_is_back();
    }
    CHECK(handled > 0, "no signal came");
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child, "waitpid");
}

/* Nothing is left of a process that ends while the other thread is there. */
static void ends(void)
{
    for (int how = 0; how < 4; how++) {
        int ends[2];
        CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            come_and_go();
            fcntl(ends[1], F_SETFD, how == 0 ? FD_CLOEXEC : 0);
            if (how == 0)
                execl("/bin/true", "true", (char *)NULL);
            if (how == 1)
                kill(getpid(), SIGKILL);
            if (how == 2)
                pthread_exit(NULL);
            exit(0);
        }
        close(ends[1]);
        char byte;
        /* The pipe ends when the last thread of the child has ended. */
        CHECK(read(ends[0], &byte, 1) == 0, "somebody writes");
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child, "waitpid");
        CHECK(how == 1 ? WIFSIGNALED(status) : status == 0, "the child: %#x", status);
        close(ends[0]);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"idle", idle},     {"sparse", sparse},   {"fork", forks},
        {"unshare", unshares}, {"ends", ends},
        {"beside", beside}, {"signals", signals}, {"user", becomes_another_user},
    };
    CHECK(argc == 2, "usage: %s PART", argv[0]);
    require_quarry();
    deadline(80, argv[1]);
    at_start = resident_bytes() + sizeof(objects);
    for (size_t i = 0; i < LENGTH(parts); i++) {
        if (strcmp(argv[1], parts[i].name) == 0) {
            parts[i].run();
            return 0;
        }
    }
    CHECK(0, "no part %s", argv[1]);
}
