/*
 * A library that opens another by a name that only its own RUNPATH or its own folder resolves: the
 * loader looks at the object that calls dlopen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

void *open_beside(const char *name, int flags)
{
    void *object = dlopen(name, flags);
    __asm__ volatile("" : : : "memory"); /* no tail call: the loader is to see this function */
    return object;
}
