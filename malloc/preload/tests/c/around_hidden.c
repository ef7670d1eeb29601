/*
 * Runs a program where /proc and /sys are empty folders, and where transparent huge pages are off.
 * usage: around_hidden files|huge PROGRAM [ARGUMENT...]; exits with 77 where it may not hide them
 */
#include "check.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static int hide_files(void)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0)
        return 0;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 0;
    if (mount("none", "/sys", "tmpfs", 0, NULL) != 0)
        return 0;
    if (mount("none", "/proc", "tmpfs", 0, NULL) != 0)
        return 0;
    CHECK(access("/proc/self", F_OK) != 0 && access("/sys/devices", F_OK) != 0, "still there");
    return 1;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3, "usage: %s files|huge PROGRAM [ARGUMENT...]", argv[0]);
    if (strcmp(argv[1], "huge") == 0) {
        CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "PR_SET_THP_DISABLE");
    } else if (!hide_files()) {
        printf("cannot mount over /proc and /sys: %s\n", strerror(errno));
        return 77;
    }
    execv(argv[2], argv + 2);
    CHECK(0, "cannot execute %s", argv[2]);
}
