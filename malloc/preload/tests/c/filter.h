/* Filters of system calls as in sandboxes: any call that is not allowed ends the process. */
#ifndef QUARRY_TEST_FILTER_H
#define QUARRY_TEST_FILTER_H

#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* System calls of glibc 2.36's malloc (sysmalloc, systrim, heaps, arenas, locks). */
static const int OF_MALLOC[] UNUSED = {
    SYS_mmap,  SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise,           SYS_brk,
    SYS_futex, SYS_openat, SYS_read,   SYS_close,    SYS_sched_getaffinity, SYS_getrandom,
};

/* Other system calls of a thread that only allocates, reports an error, and ends. */
static const int OF_THREADS[] UNUSED = {
    SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigprocmask, SYS_set_robust_list, SYS_rseq,
};

enum { MOST_STEPS = 200 };

struct filter {
    struct sock_filter steps[MOST_STEPS];
    unsigned short count;
};

static UNUSED void filter_step(struct filter *filter, struct sock_filter step)
{
    CHECK(filter->count < MOST_STEPS, "the filter is full");
    filter->steps[filter->count++] = step;
}

static UNUSED void filter_start(struct filter *filter)
{
    filter->count = 0;
    filter_step(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                     offsetof(struct seccomp_data, nr)));
}

/* Adds a rule: `call` gets `action`. */
static UNUSED void filter_answer(struct filter *filter, int call, unsigned action)
{
    filter_step(filter,
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1));
    filter_step(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static UNUSED void filter_allow(struct filter *filter, const int *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        filter_answer(filter, calls[i], SECCOMP_RET_ALLOW);
}

/* Allows a call only with this value of its third argument; with others the process ends. */
static UNUSED void filter_allow_value(struct filter *filter, int call, unsigned value)
{
    size_t third = offsetof(struct seccomp_data, args[2]);
    filter_step(filter,
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 4));
    filter_step(filter,
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)third));
    filter_step(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    filter_step(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter_step(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

/* Installs the filter for the calling thread, or for all threads (SECCOMP_FILTER_FLAG_TSYNC). */
static UNUSED void filter_install(struct filter *filter, unsigned flags)
{
    filter_step(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    struct sock_fprog program = {filter->count, filter->steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0, "seccomp");
}

#endif
