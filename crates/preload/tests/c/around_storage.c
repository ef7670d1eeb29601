/*
 * Thread-local storage of 57 KiB, which the C library puts on the stack of every thread: also of
 * the one that gives memory back, which needs stack besides.
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
    give_a_thread_reason(2);
    while (!testing_a_peer() && resident_bytes() > before + 8 * MIB)
        nap_ms(1);
    return 0;
}
