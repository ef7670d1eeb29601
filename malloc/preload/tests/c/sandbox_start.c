/*
 * A process under a filter from before its start: the filter allows the system calls of the C
 * library's malloc and of a program's start, and ends the process at any other.
 */
#include "deadline.h"
#include "filter.h"
#include "load.h"

static void enter_sandbox(void)
{
    static const int of_starting[] = {
        SYS_execve,     SYS_arch_prctl,      SYS_access, SYS_pread64,   SYS_newfstatat,
        SYS_fstat,      SYS_set_tid_address, SYS_rseq,   SYS_prlimit64, SYS_set_robust_list,
        SYS_exit_group, SYS_write,
    };
    struct filter filter;
    filter_start(&filter);
    filter_allow_value(&filter, SYS_madvise, MADV_DONTNEED);
    filter_allow(&filter, OF_MALLOC, LENGTH(OF_MALLOC));
    filter_allow(&filter, of_starting, LENGTH(of_starting));
    filter_install(&filter, 0);
}

int main(int argc, char **argv)
{
    static struct heap heap;
    if (argc == 1) {
        deadline(60, "a process that starts behind a filter");
        enter_sandbox();
        execl("/proc/self/exe", argv[0], "inside", (char *)NULL);
        CHECK(0, "execl");
    }
    require_quarry();
    bursts();
    grow(&heap);
    resize();
    shrink(&heap);
    malloc_trim(0);
    bursts();
    _exit(0);
}
