/*
 * Preloaded beside the library: a thread switches the heap profile on and off until the program
 * ends. The program itself knows nothing of it.
 */
#include "check.h"
#include <pthread.h>

int quarry_profile_start(size_t mean_bytes) __attribute__((weak));
void quarry_profile_stop(void) __attribute__((weak));

static void *switch_it(void *unused)
{
    for (unsigned round = 0;; round++) {
        /* It fails with EBUSY while the profile still writes. */
        quarry_profile_start(round % 2 ? 16 : 4096);
        usleep(200);
        quarry_profile_stop();
        usleep(200);
    }
    return unused;
}

__attribute__((constructor)) static void start(void)
{
    pthread_t thread;
    CHECK(quarry_profile_start != NULL, "the library has no heap profile");
    CHECK(pthread_create(&thread, NULL, switch_it, NULL) == 0, "no thread");
}
