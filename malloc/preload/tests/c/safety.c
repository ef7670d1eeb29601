/*
 * One misuse of memory per run. Prints "returned" when the misuse is over, goes on allocating and
 * freeing for a while, frees what it still has, prints "survived" and exits. From these two words
 * scripts/safety.sh tells when an allocator has found the misuse.
 *
 *   misuse                 lists `NAME<tab>TEXT` of all kinds
 *   misuse NAME
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 40, MEDIUM = 1000, PAGED = 10000, LARGE = 300 * 1024, HUGE = 4 << 20 };
enum { CROWD = 400 };

/* Hides a pointer from the compiler. */
static void *volatile sink;
static void *opaque(void *pointer)
{
    sink = pointer;
    return sink;
}

static void say(const char *word)
{
    if (write(1, word, strlen(word)) < 0)
        _exit(3);
}

static char *get(size_t size)
{
    char *object = opaque(malloc(size));
    if (object == NULL)
        _exit(3);
    return object;
}

static char *filled(size_t size)
{
    return memset(get(size), 'q', size);
}

static void put(volatile char *at)
{
    *at = (char)(*at ^ 0x55);
}

static void look(const volatile char *at)
{
    if (*at == 0x7e)
        sink = NULL;
}

/* Objects around the one that is misused, as in a program that is under way. */
static char *crowd[CROWD];

static void begin(size_t size)
{
    for (int i = 0; i < CROWD; i++)
        crowd[i] = size <= PAGED ? filled(size) : NULL;
    for (int i = 0; i < CROWD; i += 2) {
        free(crowd[i]);
        crowd[i] = NULL;
    }
}

/* The work of a program after a misuse. It also frees the objects that the misuse has left. */
static void go_on(size_t size)
{
    say("returned\n");
    static char *others[CROWD];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < CROWD; i++)
            others[i] = filled(i % 3 == 0 ? 24 + (size_t)i : size <= PAGED ? size : 64);
        for (int i = 0; i < CROWD; i++)
            free(others[i]);
    }
    for (int i = 0; i < CROWD; i++)
        free(crowd[i]);
}

static void write_past(size_t size, size_t distance, int length, int frees)
{
    begin(size);
    char *object = filled(size);
    for (int i = 0; i < length; i++)
        put(object + size + distance + i);
    go_on(size);
    if (frees)
        free(object);
}

static void past_1_small(void) { write_past(SMALL, 0, 1, 1); }
static void past_8_small(void) { write_past(SMALL, 8, 8, 1); }
static void past_64_small(void) { write_past(SMALL, 0, 64, 1); }
static void past_1_medium(void) { write_past(MEDIUM, 0, 1, 1); }
static void past_1_paged(void) { write_past(PAGED, 0, 1, 1); }
static void past_1_large(void) { write_past(LARGE, 0, 1, 1); }
static void past_page_large(void) { write_past(LARGE, 4096, 1, 1); }
static void past_page_huge(void) { write_past(HUGE, 4096, 1, 1); }
static void past_1_never_freed(void) { write_past(SMALL, 0, 1, 0); }
static void past_jump_small(void) { write_past(SMALL, 4096, 1, 1); }

/* A string whose terminating zero is one byte too far. */
static void string_end(void)
{
    begin(SMALL);
    char *object = get(SMALL);
    memset(object, 'x', SMALL);
    object[SMALL] = '\0';
    go_on(SMALL);
    free(object);
}

static void past_zero(void)
{
    begin(0);
    char *object = get(0);
    put(object);
    go_on(16);
    free(object);
}

static void past_calloc(void)
{
    begin(MEDIUM);
    char *object = opaque(calloc(10, 100));
    put(object + MEDIUM);
    go_on(MEDIUM);
    free(object);
}

static void past_aligned(void)
{
    begin(MEDIUM);
    char *object = opaque(aligned_alloc(64, 960));
    put(object + 960);
    go_on(MEDIUM);
    free(object);
}

/* Writes as many bytes as the object had before realloc made it smaller. */
static void past_shrunk(void)
{
    begin(MEDIUM);
    char *object = opaque(realloc(filled(MEDIUM), 900));
    put(object + 950);
    go_on(MEDIUM);
    free(object);
}

static void read_past(size_t size, size_t distance)
{
    begin(size);
    char *object = filled(size);
    look(object + size + distance);
    go_on(size);
    free(object);
}

static void read_1_small(void) { read_past(SMALL, 0); }
static void read_page_large(void) { read_past(LARGE, 4096); }

static void write_before(size_t size, size_t distance)
{
    begin(size);
    char *object = filled(size);
    put(object - distance);
    go_on(size);
    free(object);
}

static void before_1_small(void) { write_before(SMALL, 1); }
static void before_8_medium(void) { write_before(MEDIUM, 8); }
static void before_page_large(void) { write_before(LARGE, 4096); }

static void write_freed(size_t size, size_t offset)
{
    begin(size);
    char *object = filled(size);
    free(object);
    put(opaque(object + offset));
    go_on(size);
}

static void write_freed_first(void) { write_freed(SMALL, 0); }
static void write_freed_small(void) { write_freed(SMALL, 24); }
static void write_freed_medium(void) { write_freed(MEDIUM, 500); }
static void write_freed_paged(void) { write_freed(PAGED, 5000); }
static void write_freed_large(void) { write_freed(LARGE, 1000); }
static void write_freed_huge(void) { write_freed(HUGE, 1 << 20); }

/* Writes to a freed object whose memory has a new owner. */
static void write_reused(void)
{
    begin(SMALL);
    char *object = filled(SMALL);
    free(object);
    char *others[CROWD];
    for (int i = 0; i < CROWD; i++)
        others[i] = filled(SMALL);
    put(opaque(object + 8));
    go_on(SMALL);
    for (int i = 0; i < CROWD; i++)
        free(others[i]);
}

static void write_second_large(void)
{
    begin(LARGE);
    char *first = filled(LARGE), *second = filled(LARGE);
    free(first);
    free(second);
    put(opaque(second + 1000));
    go_on(LARGE);
}

static void read_freed(size_t size)
{
    begin(size);
    char *object = filled(size);
    free(object);
    look(opaque(object + size / 2));
    go_on(size);
}

static void read_freed_small(void) { read_freed(SMALL); }
static void read_freed_paged(void) { read_freed(PAGED); }
static void read_freed_large(void) { read_freed(LARGE); }

/* Writes through a pointer from before realloc moved the object. */
static void write_moved(void)
{
    begin(MEDIUM);
    char *object = filled(MEDIUM), *moved = opaque(realloc(object, 8 * MEDIUM));
    put(opaque(object + 8));
    go_on(MEDIUM);
    free(moved);
}

static void free_twice(size_t size, int between, int again)
{
    begin(size);
    char *object = filled(size), *others[64];
    for (int i = 0; i < between; i++)
        others[i] = filled(size);
    free(object);
    for (int i = 0; i < between; i++)
        free(others[i]);
    for (int i = 0; i < again; i++)
        free(filled(MEDIUM / 2));
    free(opaque(object));
    go_on(size);
}

static void twice_small(void) { free_twice(SMALL, 0, 0); }
static void twice_between(void) { free_twice(SMALL, 1, 0); }
static void twice_late(void) { free_twice(SMALL, 30, 200); }
static void twice_medium(void) { free_twice(MEDIUM, 1, 0); }
static void twice_large(void) { free_twice(LARGE, 0, 0); }
static void twice_huge(void) { free_twice(HUGE, 1, 0); }

static void *free_it(void *object)
{
    free(object);
    return NULL;
}

static void twice_threads(void)
{
    begin(SMALL);
    char *object = filled(SMALL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, free_it, object) != 0)
        _exit(3);
    pthread_join(thread, NULL);
    free(opaque(object));
    go_on(SMALL);
}

static void realloc_freed(void)
{
    begin(MEDIUM);
    char *object = filled(MEDIUM);
    free(object);
    char *moved = opaque(realloc(opaque(object), 2 * MEDIUM));
    go_on(MEDIUM);
    free(moved);
}

static void usable_freed(void)
{
    begin(SMALL);
    char *object = filled(SMALL);
    free(object);
    sink = (void *)malloc_usable_size(opaque(object));
    go_on(SMALL);
}

static void free_inside(size_t size, size_t offset)
{
    begin(size);
    char *object = filled(size);
    free(opaque(object + offset));
    go_on(size);
}

static void inside_small(void) { free_inside(SMALL, 16); }
static void inside_odd(void) { free_inside(MEDIUM, 1); }
static void inside_large(void) { free_inside(LARGE, 4096); }

static void free_foreign(void *pointer)
{
    begin(SMALL);
    free(opaque(pointer));
    go_on(SMALL);
}

static void foreign_stack(void)
{
    char object[64];
    free_foreign(object + 16);
}

static void foreign_static(void)
{
    static char object[64];
    free_foreign(object + 16);
}

static void foreign_map(void)
{
    free_foreign(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void wild(void) { free_foreign((void *)0x5a5a5a5a5a50); }

/* Looks an operator up by name, so that this program needs no C++ library to be linked. */
static void *cxx(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL) {
        void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
        function = library == NULL ? NULL : dlsym(library, name);
    }
    if (function == NULL)
        _exit(3);
    return function;
}

static void delete_size(void)
{
    void *(*operator_new)(size_t) = (void *(*)(size_t))cxx("_Znwm");
    void (*operator_delete)(void *, size_t) = (void (*)(void *, size_t))cxx("_ZdlPvm");
    begin(SMALL);
    operator_delete(operator_new(24), 200);
    go_on(SMALL);
}

static void delete_near_size(void)
{
    void *(*operator_new)(size_t) = (void *(*)(size_t))cxx("_Znwm");
    void (*operator_delete)(void *, size_t) = (void (*)(void *, size_t))cxx("_ZdlPvm");
    begin(SMALL);
    operator_delete(operator_new(40), 33);
    go_on(SMALL);
}

#define MISUSE(name, text) {#name, text, name}

static const struct {
    const char *name, *text;
    void (*run)(void);
} ALL[] = {
    MISUSE(past_1_small, "1 byte written past the end of 40"),
    MISUSE(past_8_small, "8 bytes written 8 past the end of 40"),
    MISUSE(past_64_small, "64 bytes written past the end of 40"),
    MISUSE(past_jump_small, "1 byte written 4 KiB past the end of 40"),
    MISUSE(past_1_never_freed, "1 byte written past the end of 40, never freed"),
    MISUSE(string_end, "the zero of a string written past the end of 40"),
    MISUSE(past_zero, "1 byte written to `malloc(0)`"),
    MISUSE(past_calloc, "1 byte written past the end of `calloc(10, 100)`"),
    MISUSE(past_aligned, "1 byte written past the end of `aligned_alloc(64, 960)`"),
    MISUSE(past_shrunk, "1,000 bytes made 900 by `realloc`, byte 950 written"),
    MISUSE(past_1_medium, "1 byte written past the end of 1,000"),
    MISUSE(past_1_paged, "1 byte written past the end of 10,000"),
    MISUSE(past_1_large, "1 byte written past the end of 300 KiB"),
    MISUSE(past_page_large, "1 byte written 4 KiB past the end of 300 KiB"),
    MISUSE(past_page_huge, "1 byte written 4 KiB past the end of 4 MiB"),
    MISUSE(read_1_small, "1 byte read past the end of 40"),
    MISUSE(read_page_large, "1 byte read 4 KiB past the end of 300 KiB"),
    MISUSE(before_1_small, "1 byte written in front of 40"),
    MISUSE(before_8_medium, "1 byte written 8 in front of 1,000"),
    MISUSE(before_page_large, "1 byte written 4 KiB in front of 300 KiB"),
    MISUSE(write_freed_first, "first byte of 40 written after `free`"),
    MISUSE(write_freed_small, "byte 24 of 40 written after `free`"),
    MISUSE(write_freed_medium, "1,000 bytes written after `free`"),
    MISUSE(write_freed_paged, "10,000 bytes written after `free`"),
    MISUSE(write_freed_large, "300 KiB written after `free`"),
    MISUSE(write_second_large, "the second of two of 300 KiB written after `free`"),
    MISUSE(write_freed_huge, "4 MiB written after `free`"),
    MISUSE(write_reused, "40 bytes written after `free` and 400 new ones"),
    MISUSE(write_moved, "1,000 bytes written after `realloc` made them 8,000"),
    MISUSE(read_freed_small, "40 bytes read after `free`"),
    MISUSE(read_freed_paged, "10,000 bytes read after `free`"),
    MISUSE(read_freed_large, "300 KiB read after `free`"),
    MISUSE(twice_small, "40 bytes freed twice in a row"),
    MISUSE(twice_between, "40 bytes freed twice, one other between"),
    MISUSE(twice_late, "40 bytes freed twice, 30 others and much else between"),
    MISUSE(twice_medium, "1,000 bytes freed twice, one other between"),
    MISUSE(twice_large, "300 KiB freed twice in a row"),
    MISUSE(twice_huge, "4 MiB freed twice, one other between"),
    MISUSE(twice_threads, "40 bytes freed by two threads"),
    MISUSE(realloc_freed, "`realloc` of 1,000 freed bytes"),
    MISUSE(usable_freed, "`malloc_usable_size` of 40 freed bytes"),
    MISUSE(inside_small, "`free` of byte 16 of 40"),
    MISUSE(inside_odd, "`free` of byte 1 of 1,000"),
    MISUSE(inside_large, "`free` of byte 4,096 of 300 KiB"),
    MISUSE(foreign_stack, "`free` of a local variable"),
    MISUSE(foreign_static, "`free` of a global variable"),
    MISUSE(foreign_map, "`free` of a page from `mmap`"),
    MISUSE(wild, "`free` of any number"),
    MISUSE(delete_size, "`delete` of 24 bytes as 200"),
    MISUSE(delete_near_size, "`delete` of 40 bytes as 33"),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(ALL) / sizeof(ALL[0]); i++) {
        if (argc < 2) {
            printf("%s\t%s\n", ALL[i].name, ALL[i].text);
        } else if (strcmp(argv[1], ALL[i].name) == 0) {
            ALL[i].run();
            say("survived\n");
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
