/*
 * The system refuses new processes and threads (a limit of them, or a strict filter): a fork that
 * fails leaves every lock free, and without a thread of its own the allocator gives memory back in
 * the calls of the program.
 */
#include "deadline.h"
#include "memory.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { WORKERS = 3, FORKS = 300 };

static atomic_int stop;
/* If the heap grows while there are other threads, the allocator starts a thread. So the heap grows
 * after this barrier only, when threads are refused. */
static pthread_barrier_t refused;

/* Installs a filter for all threads. If clone3 fails with ENOSYS, the C library calls clone. */
static void refuse_children(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {LENGTH(filter), filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    long done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    CHECK(done == 0, "seccomp");
}

static void *allocate(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument << 32;
    void *slots[50] = {NULL};
    pthread_barrier_wait(&refused);
    while (!atomic_load(&stop)) {
        size_t slot = next_random(&random) % LENGTH(slots);
        free(slots[slot]);
        slots[slot] = malloc(random_size(&random, 300 * KIB));
        CHECK(slots[slot] != NULL, "malloc");
    }
    for (size_t i = 0; i < LENGTH(slots); i++)
        free(slots[i]);
    return NULL;
}

/* A heap that grows to `bytes` and is freed again. */
static void come_and_go(size_t bytes)
{
    uint64_t random = 5;
    struct objects objects = room_for(1u << 20);
    while (objects.bytes < bytes)
        add_object(&objects, same_count(&random, 1024, MIB));
    for (size_t i = 0; i < objects.count; i++)
        free_object(&objects, i);
    munmap(objects.all, objects.most * sizeof(struct object));
}

int main(void)
{
    require_quarry();
    deadline(80, "forks and threads are refused");
    pthread_t threads[WORKERS], another;
    CHECK(pthread_barrier_init(&refused, NULL, WORKERS + 1) == 0, "barrier");
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)) == 0, "thread");
    refuse_children();
    pthread_barrier_wait(&refused);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child == -1 && errno == EAGAIN, "fork gives %d", (int)child);
        free(malloc(i % 2 == 0 ? 100 : 3 * MIB));
    }
    CHECK(pthread_create(&another, NULL, allocate, NULL) == EAGAIN, "a thread was started");
    size_t before = resident_bytes();
    come_and_go(96 * MIB);
    atomic_store(&stop, 1);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(testing_a_peer() || threads_now() == 1, "%u threads", threads_now());
    for (int i = 0; i < 1000 && resident_bytes() > before + 48 * MIB; i++)
        come_and_go(2 * MIB);
    CHECK(resident_bytes() <= before + 48 * MIB, "%zu bytes kept", resident_bytes() - before);
    return 0;
}
