/* A plugin that allocates, and frees what it is given. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "deepbind.h"

static void *create(size_t size)
{
    return malloc(size);
}

static void *resize(void *object, size_t size)
{
    return realloc(object, size);
}

static void release(void *object)
{
    free(object);
}

static char *copy(const char *text)
{
    return strdup(text);
}

static const char *owner(void)
{
    Dl_info info;
    return dladdr((void *)free, &info) != 0 ? info.dli_fname : "nowhere";
}

const struct plugin plugin = {create, resize, release, copy, owner};
