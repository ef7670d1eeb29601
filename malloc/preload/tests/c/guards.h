/* Systems that make no guards: kernels before Linux 6.13, or none that protects memory at all. */
#ifndef QUARRY_TEST_GUARDS_H
#define QUARRY_TEST_GUARDS_H

#include "filter.h"

/* Linux 6.13, include/uapi/asm-generic/mman-common.h. */
enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

static void refuse_with_third(struct filter *filter, int call, unsigned value, unsigned error)
{
    size_t third = offsetof(struct seccomp_data, args[2]);
    size_t number = offsetof(struct seccomp_data, nr);
    filter_step(filter,
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 4));
    filter_step(filter,
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)third));
    filter_step(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    filter_step(filter,
                (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
    filter_step(filter,
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)number));
}

/* From now on the kernel has no marks for guards, and if `all`, does not protect memory. */
static UNUSED void refuse_guards(int all)
{
    struct filter filter;
    filter_start(&filter);
    refuse_with_third(&filter, SYS_madvise, GUARD_INSTALL, EINVAL);
    refuse_with_third(&filter, SYS_madvise, GUARD_REMOVE, EINVAL);
    if (all)
        refuse_with_third(&filter, SYS_mprotect, PROT_NONE, EACCES);
    filter_step(&filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter_install(&filter, 0);
}

#endif
