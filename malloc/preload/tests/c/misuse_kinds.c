/*
 * One kind of misuse per run, named as in the tests of hardened_malloc; without an argument, prints
 * their names. Ends with "survived" on standard output where no check has stopped it.
 */
#include "check.h"

#include <stdbool.h>
#include <sys/mman.h>

enum { SMALL = 16, MEDIUM = 128, LARGE = 256 * 1024 };

static char *allocated(size_t size)
{
    char *object = opaque(malloc(opaque_size(size)));
    CHECK(object != NULL, "malloc(%zu)", size);
    return object;
}

static char *freed(size_t size)
{
    char *object = allocated(size);
    memset(object, 'a', 16);
    free(object);
    return opaque(object);
}

static void *cxx(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL)
        function = dlsym(dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL), name);
    CHECK(function != NULL, "no %s", name);
    return function;
}

static void read_byte(const char *address)
{
    opaque_size((size_t)*(const volatile char *)address);
}

static void write_byte(char *address)
{
    *(volatile char *)address ^= 1;
}

static void delete_type_size_mismatch(void)
{
    void *(*operator_new)(size_t) = (void *(*)(size_t))cxx("_Znwm");
    void (*operator_delete)(void *, size_t) = (void (*)(void *, size_t))cxx("_ZdlPvm");
    operator_delete(operator_new(1), 32);
}

static void double_free(size_t size, bool delayed)
{
    char *object = allocated(size), *other = allocated(size);
    free(object);
    if (delayed)
        free(other);
    free(opaque(object));
}

static void double_free_large(void) { double_free(LARGE, false); }
static void double_free_large_delayed(void) { double_free(LARGE, true); }
static void double_free_small(void) { double_free(SMALL, false); }
static void double_free_small_delayed(void) { double_free(SMALL, true); }

static void invalid_free_of_page(int protection)
{
    char *page = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED, "mmap");
    free(opaque(page));
}

static void invalid_free_protected(void) { invalid_free_of_page(PROT_NONE); }
static void invalid_free_unprotected(void) { invalid_free_of_page(PROT_READ | PROT_WRITE); }
static void invalid_free_small_region(void) { free(allocated(SMALL) + 4 * PAGE); }
static void invalid_free_small_region_far(void) { free(allocated(SMALL) + 1024 * MIB); }

static void usable_size(char *object)
{
    opaque_size(malloc_usable_size(opaque(object)));
}

static void invalid_malloc_usable_size_small(void) { usable_size(allocated(SMALL) + 4 * PAGE); }
static void invalid_malloc_usable_size_small_quarantine(void) { usable_size(freed(SMALL)); }

static void overflow(size_t size, size_t beyond)
{
    char *object = allocated(size);
    write_byte(object + malloc_usable_size(object) + beyond);
    free(object);
}

static void overflow_large_1_byte(void) { overflow(LARGE, 0); }
static void overflow_large_8_byte(void) { overflow(LARGE, 7); }
static void overflow_small_1_byte(void) { overflow(8, 0); }
static void overflow_small_8_byte(void) { overflow(8, 7); }
static void read_after_free_large(void) { read_byte(freed(LARGE)); }

/* Stopped if the bytes of the freed object are gone. */
static void read_after_free_small(void)
{
    static const char NOTHING[SMALL];
    CHECK(memcmp(freed(SMALL), NOTHING, SMALL) != 0, "stopped");
}

static void read_zero_size(void) { read_byte(allocated(0)); }
static void write_zero_size(void) { write_byte(allocated(0)); }

/* The string is stopped if a zero byte follows the object, even if its neighbour holds none. */
static void string_overflow(void)
{
    /* The neighbour after `object` is `first` or `last`, as allocators go upwards or downwards. */
    char *first = allocated(SMALL), *object = allocated(SMALL), *last = allocated(SMALL);
    size_t size = malloc_usable_size(object);
    memset(first, 'a', SMALL);
    memset(last, 'a', SMALL);
    memset(object, 'a', size);
    CHECK(strlen(opaque(object)) != size, "stopped");
}

static void unaligned_free_large(void) { free(opaque(allocated(LARGE) + 1)); }
static void unaligned_free_small(void) { free(opaque(allocated(SMALL) + 1)); }
static void unaligned_malloc_usable_size_small(void) { usable_size(allocated(SMALL) + 1); }
static void uninitialized_free(void) { free(opaque((void *)1)); }
static void uninitialized_malloc_usable_size(void) { usable_size((char *)1); }
static void uninitialized_realloc(void) { opaque(realloc(opaque((void *)1), 16)); }

static void write_after_free(size_t size, size_t offset, bool reuse)
{
    char *object = freed(size);
    if (reuse)
        opaque(malloc(size));
    write_byte(object + offset);
    for (int i = 0; i < 4096 && size < LARGE; i++)
        opaque(malloc(size));
}

static void write_after_free_large(void) { write_after_free(LARGE, 64 * 1024 + 1, false); }
static void write_after_free_large_reuse(void) { write_after_free(LARGE, 64 * 1024 + 1, true); }
static void write_after_free_small(void) { write_after_free(MEDIUM, 65, false); }

/* An object is freed, written to, and handed out again: its new owner finds a foreign byte. */
static void write_after_free_small_reuse(void)
{
    char *object = freed(MEDIUM), *other = allocated(MEDIUM);
    free(other);
    write_byte(object + 65);
    for (int i = 0; i < 4096; i++)
        opaque(malloc(MEDIUM));
}

/* From here on: kinds that the tests of hardened_malloc do not have. */
static void double_free_after_seven(void)
{
    char *objects[8];
    for (size_t i = 0; i < LENGTH(objects); i++)
        objects[i] = allocated(SMALL);
    for (size_t i = 0; i < LENGTH(objects); i++)
        free(objects[i]);
    free(opaque(objects[1]));
    for (size_t i = 0; i < 4096; i++)
        opaque(malloc(SMALL));
}

static void overflow_into_bits(void)
{
    static char *objects[8192];
    for (size_t i = 0; i < LENGTH(objects); i++)
        objects[i] = allocated(SMALL);
    for (size_t i = 0; i < LENGTH(objects); i++)
        if (((uintptr_t)objects[i] + SMALL) % (16 * KIB) == 0)
            memset(objects[i] + SMALL, 0xff, 1);
    for (size_t i = 0; i < LENGTH(objects); i += 2)
        free(objects[i]);
    for (size_t i = 0; i < LENGTH(objects); i++)
        opaque(malloc(SMALL));
}

static void free_sized_too_large(void)
{
    void (*free_sized)(void *, size_t) =
        (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    if (free_sized != NULL)
        free_sized(allocated(SMALL), 100);
}

static void aligned_delete_mismatch(void)
{
    void *(*operator_new)(size_t, size_t) = (void *(*)(size_t, size_t))cxx("_ZnwmSt11align_val_t");
    void (*operator_delete)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))cxx("_ZdlPvmSt11align_val_t");
    operator_delete(operator_new(64, 64), 200, 64);
}

static void free_stack(void)
{
    char on_stack[64];
    free(opaque(on_stack + 16));
}

#define KIND(name) {#name, name}

static const struct {
    const char *name;
    void (*misuse)(void);
} KINDS[] = {
    KIND(delete_type_size_mismatch),
    KIND(double_free_large),
    KIND(double_free_large_delayed),
    KIND(double_free_small),
    KIND(double_free_small_delayed),
    KIND(invalid_free_protected),
    KIND(invalid_free_small_region),
    KIND(invalid_free_small_region_far),
    KIND(invalid_free_unprotected),
    KIND(invalid_malloc_usable_size_small),
    KIND(invalid_malloc_usable_size_small_quarantine),
    KIND(overflow_large_1_byte),
    KIND(overflow_large_8_byte),
    KIND(overflow_small_1_byte),
    KIND(overflow_small_8_byte),
    KIND(read_after_free_large),
    KIND(read_after_free_small),
    KIND(read_zero_size),
    KIND(string_overflow),
    KIND(unaligned_free_large),
    KIND(unaligned_free_small),
    KIND(unaligned_malloc_usable_size_small),
    KIND(uninitialized_free),
    KIND(uninitialized_malloc_usable_size),
    KIND(uninitialized_realloc),
    KIND(write_after_free_large),
    KIND(write_after_free_large_reuse),
    KIND(write_after_free_small),
    KIND(write_after_free_small_reuse),
    KIND(write_zero_size),
    KIND(double_free_after_seven),
    KIND(overflow_into_bits),
    KIND(free_sized_too_large),
    KIND(aligned_delete_mismatch),
    KIND(free_stack),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < LENGTH(KINDS); i++) {
        if (argc < 2) {
            dprintf(1, "%s\n", KINDS[i].name);
        } else if (strcmp(argv[1], KINDS[i].name) == 0) {
            KINDS[i].misuse();
            /* Not by stdio, which might allocate, and so end another way. */
            CHECK(write(1, "survived\n", 9) == 9, "standard output is closed");
        }
    }
    return 0;
}
