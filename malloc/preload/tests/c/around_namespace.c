/*
 * The kernel refuses unshare(CLONE_NEWUSER) with EINVAL where a process has a second thread. The
 * thread that gives back what a program with one thread has freed ends before the call. Exits with
 * 77 and a reason where the kernel refuses the call to every process.
 */
#include "check.h"

#include <sched.h>
#include <sys/wait.h>

static int unshare_in_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0)
        _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child: %#x", status);
    return WEXITSTATUS(status);
}

static void use_and_free(size_t bytes)
{
    static void *objects[64];
    size_t count = bytes / (256 * KIB);
    for (size_t i = 0; i < count; i++)
        objects[i] = memset(malloc(256 * KIB), 1, 256 * KIB);
    for (size_t i = 0; i < count; i++)
        free(objects[i]);
}

int main(void)
{
    require_quarry();
    for (size_t i = 0; i < 200; i++)
        use_and_free(14 * MIB);
    int refused = unshare_in_child();
    if (refused != 0 && refused != EINVAL) {
        printf("unshare(CLONE_NEWUSER): %s\n", strerror(refused));
        return 77;
    }
    CHECK(refused == 0, "unshare(CLONE_NEWUSER) in a child: %s", strerror(refused));
    CHECK(unshare(CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER)");
    use_and_free(14 * MIB);
    return 0;
}
