/* The program `deepbind`, with the address of malloc in its code: its PLT entry. */
#include "check.h"

void *(*volatile allocate)(size_t);

__attribute__((constructor)) static void take_address(void)
{
    allocate = malloc;
}

#include "deepbind.c"
