/*
 * The signal of QUARRY_SIGNAL comes to a thread with an alternate stack as small as Rust's: 8 KiB,
 * below which nothing may be touched.
 */
#include "check.h"

#include <signal.h>
#include <sys/mman.h>

enum { STACK = 8192 };

int main(void)
{
    require_quarry();
    char *room = mmap(NULL, 2 * STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED, "mmap");
    CHECK(mprotect(room + STACK, STACK, PROT_READ | PROT_WRITE) == 0, "mprotect");
    stack_t stack = {.ss_sp = room + STACK, .ss_size = STACK};
    CHECK(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    raise(SIGUSR2);
    /* The next slow path does the work for which the handler has no room. */
    void *object = malloc(4 * MIB);
    CHECK(object != NULL, "malloc");
    free(object);
    return 0;
}
