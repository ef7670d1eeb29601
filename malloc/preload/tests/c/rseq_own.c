/*
 * Threads that the C library does not register for restartable sequences register themselves by
 * their first request. The kernel keeps one area for each thread, so a program that tries to
 * register another one learns whether the thread has one.
 * usage: rseq_own PART
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* `struct rseq` of Linux 4.18, of which this program reads only `cpu_id`. */
struct area {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
    uint32_t rest[4];
} __attribute__((aligned(32)));

/* Another signature than that of the C libraries, as another user of rseq may have. */
enum { SIGNATURE = 0x12345678, UNREGISTER = 1 };

static long tell(struct area *area, int flags)
{
    return syscall(SYS_rseq, area, sizeof(*area), flags, SIGNATURE);
}

static int is_registered(void)
{
    struct area mine = {0, (uint32_t)-1, 0, {0}};
    if (tell(&mine, 0) != 0) {
        CHECK(errno == EINVAL || errno == EBUSY || errno == EPERM, "rseq");
        return 1;
    }
    CHECK(tell(&mine, UNREGISTER) == 0, "what was registered can be taken back");
    return 0;
}

/* Requests of some sizes, each of which the next request of its size may get again. */
static void work(int rounds)
{
    void *objects[32];
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < LENGTH(objects); i++) {
            objects[i] = malloc(16 + 48 * i);
            CHECK(objects[i] != NULL, "malloc");
            memset(objects[i], (int)i, 16 + 48 * i);
        }
        for (size_t i = 0; i < LENGTH(objects); i++) {
            const unsigned char *bytes = objects[i];
            CHECK(bytes[0] == i && bytes[15 + 48 * i] == i, "%p changed", objects[i]);
            free(objects[i]);
        }
    }
}

static void in_thread(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
}

static void *first_request(void *unused)
{
    CHECK(!is_registered(), "before the first request");
    free(opaque(malloc(100)));
    CHECK(is_registered(), "after it");
    work(100);
    return unused;
}

static void first(void)
{
    free(opaque(malloc(100)));
    CHECK(is_registered(), "the first thread");
    for (int i = 0; i < 20; i++)
        in_thread(first_request);
}

/* The last thing that a thread does is to free what it has; other destructors run before and after
 * that of Quarry, and allocate too. */
static pthread_key_t keys[8];

static void at_end(void *value)
{
    free(value);
    work(2);
}

static int ended;

static void *ends(void *unused)
{
    for (size_t i = 0; i < LENGTH(keys); i++)
        CHECK(pthread_setspecific(keys[i], malloc(100 + i)) == 0, "pthread_setspecific");
    work(10);
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    return unused;
}

static void *ends_without_request(void *unused)
{
    CHECK(pthread_setspecific(keys[7], (void *)0) == 0, "pthread_setspecific");
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    return unused;
}

static void *waits_to_be_cancelled(void *unused)
{
    work(10);
    for (;;)
        pause();
    return unused;
}

/* Threads of each kind end. On musl a detached thread's memory goes before the thread does. */
static void ends_of_threads(void)
{
    enum { THREADS = 1500 };
    for (size_t i = 0; i < LENGTH(keys); i++)
        CHECK(pthread_key_create(&keys[i], at_end) == 0, "pthread_key_create");
    pthread_attr_t detached;
    CHECK(pthread_attr_init(&detached) == 0, "pthread_attr_init");
    CHECK(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0, "detached");
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        void *(*body)(void *) = i % 8 == 0 ? ends_without_request : ends;
        while (pthread_create(&thread, &detached, body, NULL) != 0)
            sched_yield();
        if (i % 10 == 0) {
            CHECK(pthread_create(&thread, NULL, waits_to_be_cancelled, NULL) == 0, "a thread");
            CHECK(pthread_cancel(thread) == 0, "pthread_cancel");
            void *result;
            CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "cancelled");
        }
        work(1);
    }
    while (__atomic_load_n(&ended, __ATOMIC_RELAXED) < THREADS)
        sched_yield();
}

/* The child of a vfork has this thread's storage, but the kernel knows it as another thread. */
static void *in_vfork(void *unused)
{
    CHECK(!is_registered(), "before the first request");
    pid_t child = vfork();
    CHECK(child >= 0, "vfork");
    if (child == 0) {
        work(20);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    CHECK(!is_registered(), "the child has registered its parent's area");
    work(100);
    CHECK(is_registered(), "after the first request");
    return unused;
}

static int cloned(void *done)
{
    work(20);
    __atomic_store_n((int *)done, 1, __ATOMIC_RELEASE);
    return 0;
}

/* A thread that the C library does not know, and that has the storage of this one. */
static void *in_clone(void *unused)
{
    static char stack[256 * 1024] __attribute__((aligned(64)));
    CHECK(!is_registered(), "before the first request");
    int done = 0;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    CHECK(clone(cloned, stack + sizeof(stack), flags, &done) > 0, "clone");
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        sched_yield();
    CHECK(!is_registered(), "the other has registered this thread's area");
    work(100);
    CHECK(is_registered(), "after the first request");
    return unused;
}

static void check_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        work(50);
        CHECK(is_registered(), "the child of a fork");
        in_thread(first_request);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
}

static void *forks(void *unused)
{
    check_child();
    work(10);
    check_child();
    return unused;
}

/* Another user of rseq is first in a thread, and later than Quarry in another. */
static void *another_is_first(void *unused)
{
    static __thread struct area mine = {0, (uint32_t)-1, 0, {0}};
    CHECK(tell(&mine, 0) == 0, "the thread has no area yet");
    work(100);
    CHECK(mine.cpu_id < 4096, "the area was taken away");
    CHECK(tell(&mine, UNREGISTER) == 0, "it is ours to take back");
    work(100);
    return unused;
}

static void *another_is_later(void *unused)
{
    work(1);
    CHECK(is_registered(), "by the first request");
    work(100);
    return unused;
}

static void another(void)
{
    for (int i = 0; i < 3; i++) {
        in_thread(another_is_first);
        in_thread(another_is_later);
    }
}

/* A handler's request may be the thread's first, and may come at any moment. */
static void handler(int number)
{
    (void)number;
    free(opaque(malloc(48)));
}

static void *interrupted(void *unused)
{
    CHECK(raise(SIGUSR1) == 0, "raise");
    CHECK(is_registered(), "by the handler's request");
    work(20);
    return unused;
}

static void signals(void)
{
    CHECK(signal(SIGUSR1, handler) != SIG_ERR, "signal");
    for (int i = 0; i < 50; i++)
        in_thread(interrupted);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: %s PART", argv[0]);
    const char *part = argv[1];
    work(1);
    if (strcmp(part, "first") == 0)
        first();
    else if (strcmp(part, "ends") == 0)
        ends_of_threads();
    else if (strcmp(part, "vfork") == 0)
        in_thread(in_vfork);
    else if (strcmp(part, "clone") == 0)
        in_thread(in_clone);
    else if (strcmp(part, "fork") == 0)
        in_thread(forks);
    else if (strcmp(part, "another") == 0)
        another();
    else if (strcmp(part, "signals") == 0)
        signals();
    else
        CHECK(0, "unknown part %s", part);
    work(100);
    return 0;
}
