/* A tool that defines `malloc` and its relatives by glibc's second names for them. */
#include "check.h"

void *__libc_malloc(size_t);
void __libc_free(void *);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *__libc_valloc(size_t);
void *__libc_pvalloc(size_t);

int wrapper_calls;

void *malloc(size_t size) { wrapper_calls++; return __libc_malloc(size); }
void free(void *pointer) { wrapper_calls++; __libc_free(pointer); }
void *calloc(size_t count, size_t size) { wrapper_calls++; return __libc_calloc(count, size); }
void *memalign(size_t align, size_t size) { wrapper_calls++; return __libc_memalign(align, size); }
void *valloc(size_t size) { wrapper_calls++; return __libc_valloc(size); }
void *pvalloc(size_t size) { wrapper_calls++; return __libc_pvalloc(size); }

void *realloc(void *pointer, size_t size)
{
    wrapper_calls++;
    return __libc_realloc(pointer, size);
}
