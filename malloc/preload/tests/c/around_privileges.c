/*
 * The thread that gives memory back keeps no right that the main thread has given up. It can always
 * follow a change of user: the C library repeats the change in every thread, and ends the process
 * if one thread fails to.
 * usage: around_privileges user|beside|capabilities|first|effective|vow
 * Exits with 77 and a reason where this user has no rights to give up.
 */
#include "deadline.h"
#include "memory.h"

#include <grp.h>
#include <pthread.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { NOBODY = 65534 };

/* Returns whether the line `name` of every thread's status is `value`. */
static int all_have(const char *name, const char *value)
{
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "/proc/self/task");
    int all = 1;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], text[8192] = {0};
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        int file = task->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            continue;
        CHECK(read(file, text, sizeof(text) - 1) > 0, "%s cannot be read", path);
        close(file);
        char *line = strstr(text, name);
        CHECK(line != NULL, "%s has no %s", path, name);
        line += strlen(name) + strspn(line + strlen(name), ":\t ");
        all &= strncmp(line, value, strlen(value)) == 0;
    }
    closedir(tasks);
    return all;
}

static void wait_until_all_have(const char *name, const char *value)
{
    deadline_step = name;
    while (!all_have(name, value))
        sched_yield();
}

typedef struct __user_cap_data_struct Capabilities[2];

static struct __user_cap_header_struct of_this_thread = {_LINUX_CAPABILITY_VERSION_3, 0};

static void set_capabilities(Capabilities capabilities)
{
    CHECK(syscall(SYS_capset, &of_this_thread, capabilities) == 0, "capset");
}

static void become_nobody(void)
{
    CHECK(setgroups(0, NULL) == 0, "setgroups");
    CHECK(setgid(NOBODY) == 0, "setgid");
    CHECK(setuid(NOBODY) == 0, "setuid");
    /* A thread that was just created may change its user only after setuid has returned: without
     * Quarry, too, in 45 of 3,000 runs of a program on a busy machine (glibc 2.36). */
    wait_until_all_have("Uid", "65534\t65534\t65534\t65534");
    CHECK(all_have("CapPrm", "0000000000000000"), "a thread has capabilities");
    CHECK(setuid(0) != 0, "nobody became root");
}

/* A thread may raise effective capabilities again; only those no longer permitted are gone. */
static void lower_and_raise(Capabilities before)
{
    Capabilities lowered, raised;
    memcpy(raised, before, sizeof(Capabilities));
    raised[0].permitted &= ~(1u << CAP_SYS_TIME);
    raised[0].effective &= raised[0].permitted;
    raised[0].inheritable = raised[1].inheritable = 0;
    memcpy(lowered, raised, sizeof(Capabilities));
    lowered[0].effective = lowered[1].effective = 0;
    set_capabilities(lowered);
    char permitted[20];
    snprintf(permitted, sizeof(permitted), "%08x%08x", raised[1].permitted, raised[0].permitted);
    wait_until_all_have("CapPrm", permitted);
    set_capabilities(raised);
}

static void *sleeps(void *unused)
{
    pause();
    return unused;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: %s user|beside|capabilities|first|effective|vow", argv[0]);
    require_quarry();
    deadline(60, argv[1]);
    Capabilities before, none = {{0, 0, 0}, {0, 0, 0}};
    CHECK(syscall(SYS_capget, &of_this_thread, before) == 0, "capget");
    unsigned needed = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_SYS_TIME;
    if (geteuid() != 0 || (before[0].permitted & needed) != needed) {
        printf("this user has no rights to give up\n");
        return 77;
    }
    if (strcmp(argv[1], "first") == 0)
        set_capabilities(none);
    /* When a program creates its first thread, the C library unblocks the signal by which it
     * reaches other threads; later threads inherit this. */
    int is_beside = strcmp(argv[1], "beside") == 0;
    pthread_t other;
    CHECK(!is_beside || pthread_create(&other, NULL, sleeps, NULL) == 0, "pthread_create");
    have_had_a_thread();
    give_a_thread_reason(is_beside ? 3 : 2);
    if (is_beside || strcmp(argv[1], "user") == 0) {
        become_nobody();
    } else if (strcmp(argv[1], "effective") == 0) {
        lower_and_raise(before);
        become_nobody();
    } else if (strcmp(argv[1], "vow") == 0) {
        CHECK(all_have("NoNewPrivs", "0"), "a thread has taken a vow that the program has not");
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
        wait_until_all_have("NoNewPrivs", "1");
    } else {
        set_capabilities(none);
        wait_until_all_have("CapPrm", "0000000000000000");
        CHECK(all_have("CapEff", "0000000000000000"), "a thread has effective capabilities");
    }
    return 0;
}
