/*
 * The C library puts thread-local storage, here 57 KiB, on the stack of every thread. The thread
 * that gives memory back needs stack for its work in addition.
 */
#include "deadline.h"
#include "memory.h"

static __thread volatile unsigned char storage[57 * 1024];

int main(void)
{
    require_quarry();
    deadline(60, "the reclaim thread gives nothing back");
    storage[sizeof(storage) - 1] = 1;
    size_t before = resident_bytes();
    have_had_a_thread();
    give_a_thread_reason(2);
    while (!testing_a_peer() && resident_bytes() > before + 8 * MIB)
        nap_ms(1);
    return 0;
}
