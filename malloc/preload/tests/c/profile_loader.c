/* Allocations are traced while another thread holds the loader's lock. */
#include "check.h"
#include "deadline.h"

int quarry_profile_start(size_t mean_bytes) __attribute__((weak));
void quarry_profile_stop(void) __attribute__((weak));

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: profile_loader PLUGIN");
    require_quarry();
    deadline(60, "opening a library while another thread's allocations are traced");
    CHECK(quarry_profile_start(1) == 0, "a profile");
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    quarry_profile_stop();
    return 0;
}
