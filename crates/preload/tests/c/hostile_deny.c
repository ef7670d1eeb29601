/*
 * Runs a program under a seccomp filter that refuses system calls, as containers do.
 * usage: hostile_deny ERRNO CALL[,CALL] PROGRAM [ARGUMENT...], CALL one of rseq, membarrier
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

int main(int argc, char **argv)
{
    CHECK(argc >= 4, "usage: %s ERRNO CALL[,CALL] PROGRAM [ARGUMENT...]", argv[0]);
    int error = atoi(argv[1]);
    int known = 0;
    if (strstr(argv[2], "rseq") != NULL) {
        deny(SYS_rseq, error);
        known = 1;
    }
    if (strstr(argv[2], "membarrier") != NULL) {
        deny(SYS_membarrier, error);
        known = 1;
        long answer = syscall(SYS_membarrier, 0, 0, 0);
        CHECK(answer == -1 && errno == error, "membarrier answers %ld", answer);
    }
    CHECK(known, "unknown call in %s", argv[2]);
    execv(argv[3], argv + 3);
    CHECK(0, "cannot execute %s", argv[3]);
}
