/*
 * A process with one thread under the filter of OpenSSH 9's unprivileged child, which ends the
 * process at the first call that is not on its list (sandbox-seccomp-filter.c).
 * usage: sandbox_openssh keep|free|late
 *   late: nothing is allocated before the filter
 */
#include "deadline.h"
#include "filter.h"
#include "load.h"

static void enter_sandbox(void)
{
    static const int denied[] = {SYS_lstat, SYS_fstat, SYS_open,   SYS_openat, SYS_newfstatat,
                                 SYS_stat,  SYS_shmget, SYS_shmat, SYS_shmdt};
    static const int allowed[] = {
        SYS_brk,       SYS_clock_gettime, SYS_close,  SYS_exit,         SYS_exit_group,
        SYS_futex,     SYS_geteuid,       SYS_getpgid, SYS_getpid,      SYS_getrandom,
        SYS_gettimeofday, SYS_getuid,     SYS_madvise, SYS_mremap,      SYS_munmap,
        SYS_nanosleep, SYS_clock_nanosleep, SYS_poll, SYS_pselect6,     SYS_read,
        SYS_rt_sigprocmask, SYS_select,   SYS_shutdown, SYS_time,       SYS_write,
    };
    struct filter filter;
    filter_start(&filter);
    for (size_t i = 0; i < LENGTH(denied); i++)
        filter_answer(&filter, denied[i], SECCOMP_RET_ERRNO | EACCES);
    filter_allow(&filter, allowed, LENGTH(allowed));
    static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    for (size_t i = 0; i < LENGTH(protections); i++) {
        /* Each value has a rule of its own, so a call that does not match goes on to the next
         * rule. */
        static const int calls[] = {SYS_mmap, SYS_mprotect};
        for (size_t call = 0; call < LENGTH(calls); call++) {
            filter_step(&filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                              (unsigned)calls[call], 0, 4));
            filter_step(&filter,
                        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                     offsetof(struct seccomp_data, args[2])));
            filter_step(&filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                              (unsigned)protections[i], 0, 1));
            filter_step(&filter,
                        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
            filter_step(&filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                              offsetof(struct seccomp_data, nr)));
        }
    }
    filter_install(&filter, 0);
}

int main(int argc, char **argv)
{
    static struct heap heap;
    CHECK(argc == 2, "usage: %s keep|free|late", argv[0]);
    if (strcmp(argv[1], "late") != 0)
        require_quarry();
    deadline(60, "a process behind the filter of OpenSSH");
    enter_sandbox();
    bursts();
    malloc_trim(0);
    resize();
    grow(&heap);
    malloc_trim(0);
    if (strcmp(argv[1], "free") == 0) {
        shrink(&heap);
        malloc_trim(0);
        bursts();
    }
    _exit(0);
}
