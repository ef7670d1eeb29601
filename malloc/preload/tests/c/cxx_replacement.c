/*
 * Replaces one function, the symbol SYMBOL, and counts its calls. An operator of C++ takes its
 * memory from malloc, as those of the C++ library do; malloc and free pass on what they get.
 */
#include "check.h"

#define JOIN(a, b) a##b
#define COUNTER(symbol) JOIN(called_, symbol)
#define TEXT(symbol) #symbol
#define NAME(symbol) TEXT(symbol)

int COUNTER(SYMBOL);

void *replacement(void *pointer_or_size, size_t second, size_t third) __asm__(NAME(SYMBOL));

static void *(*next)(void *);

/* Not in a call of `free`, which `dlsym` itself may make. */
__attribute__((constructor)) static void find_next(void)
{
    next = (void *(*)(void *))dlsym(RTLD_NEXT, NAME(SYMBOL));
}

void *replacement(void *pointer_or_size, size_t second, size_t third)
{
    (void)third;
    COUNTER(SYMBOL)++;
    const char *name = NAME(SYMBOL);
    if (strcmp(name, "malloc") == 0 || strcmp(name, "free") == 0) {
        if (next == NULL)
            find_next();
        return next(pointer_or_size);
    }
    if (strncmp(name, "_Zd", 3) == 0) {
        free(pointer_or_size);
        return NULL;
    }
    size_t size = (size_t)pointer_or_size;
    return strstr(name, "align_val") != NULL ? aligned_alloc(second, size) : malloc(size);
}
