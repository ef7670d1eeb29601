/*
 * Runs a program under a seccomp filter that refuses system calls, as containers do.
 * usage: hostile_deny ERRNO CALL[,CALL] PROGRAM [ARGUMENT...], CALL one of rseq, membarrier,
 * memfd_create, mremap, madvise; or madvise:ADVICE, which refuses that value only
 */
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void deny(long call, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {LENGTH(filter), filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

/* Refuses one value of the third argument of madvise, as older kernels and strict filters do. */
static void deny_advice(unsigned advice, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, advice, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {LENGTH(filter), filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

static void deny_named(const char *name, int error)
{
    static const struct {
        const char *name;
        long call;
    } calls[] = {
        {"rseq", SYS_rseq},     {"membarrier", SYS_membarrier}, {"memfd_create", SYS_memfd_create},
        {"mremap", SYS_mremap}, {"madvise", SYS_madvise},
    };
    if (strncmp(name, "madvise:", 8) == 0) {
        deny_advice((unsigned)atoi(name + 8), error);
        return;
    }
    for (size_t i = 0; i < LENGTH(calls); i++) {
        if (strcmp(name, calls[i].name) == 0) {
            deny(calls[i].call, error);
            long answer = syscall(calls[i].call, 0, 0, 0);
            CHECK(answer == -1 && errno == error, "%s answers %ld", name, answer);
            return;
        }
    }
    CHECK(0, "unknown call %s", name);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 4, "usage: %s ERRNO CALL[,CALL] PROGRAM [ARGUMENT...]", argv[0]);
    int error = atoi(argv[1]);
    char *rest = argv[2];
    for (char *name; (name = strsep(&rest, ",")) != NULL;)
        deny_named(name, error);
    execv(argv[3], argv + 3);
    CHECK(0, "cannot execute %s", argv[3]);
}
