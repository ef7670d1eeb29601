/* Opens a plugin in C++, and lets it check who is called. */
#include "check.h"

int main(int count, char **arguments)
{
    CHECK(count == 3, "usage: cxx_opener PLUGIN HOW");
    int how = arguments[2][0] == 'g' ? RTLD_GLOBAL : RTLD_LOCAL;
    if (strcmp(arguments[2], "deepbind") == 0)
        how |= RTLD_DEEPBIND;
    void *plugin = dlopen(arguments[1], RTLD_NOW | how);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    void (*check)(void) = (void (*)(void))dlsym(plugin, "check_replaced");
    CHECK(check != NULL, "dlsym: %s", dlerror());
    check();
    return 0;
}
