/*
 * A run that makes every kind of request, for programs in which requests fail: each failure is NULL
 * with ENOMEM, and live objects keep their contents.
 */
#ifndef QUARRY_TEST_REFUSED_H
#define QUARRY_TEST_REFUSED_H

#include "deadline.h"

#include <sys/prctl.h>
#include <sys/wait.h>

enum { OBJECTS = 400 };
static struct {
    unsigned char *address;
    size_t size;
} live[OBJECTS];
static size_t count;
static int refused;

/* The distance between the failures that are tested: 1 tests all, a larger `TEST_STEP` fewer. */
static long test_step(void)
{
    const char *text = getenv("TEST_STEP");
    long step = text == NULL ? 1 : atol(text);
    CHECK(step > 0, "TEST_STEP=%s: a number from 1 on is accepted", text);
    return step;
}

static void keep(void *object, size_t size, const char *entry)
{
    if (object == NULL) {
        CHECK(errno == ENOMEM, "%s of %zu bytes was refused without ENOMEM", entry, size);
        refused++;
        return;
    }
    CHECK(count < OBJECTS, "too many objects");
    pattern_fill(object, size, count);
    live[count].address = object;
    live[count++].size = size;
}

static void allocate_zeroed(size_t size)
{
    errno = 0;
    unsigned char *object = calloc(1, size);
    for (size_t i = 0; object != NULL && i < size; i += size < 5000 ? 1 : 509)
        CHECK(object[i] == 0, "calloc(%zu) is not zero at %zu", size, i);
    keep(object, size, "calloc");
}

static void allocate_aligned(size_t size)
{
    void *object = NULL;
    int error = posix_memalign(&object, 64 * KIB, size);
    CHECK(error == 0 || error == ENOMEM, "posix_memalign(%zu) says %d", size, error);
    CHECK(error == 0 || object == NULL, "posix_memalign failed and gave %p", object);
    errno = error;
    keep(object, size, "posix_memalign");
}

static void resize(size_t number, size_t size)
{
    errno = 0;
    unsigned char *moved = realloc(live[number].address, size);
    if (moved == NULL) {
        CHECK(errno == ENOMEM, "realloc to %zu was refused without ENOMEM", size);
        CHECK_PATTERN(live[number].address, live[number].size, number);
        refused++;
        return;
    }
    CHECK_PATTERN(moved, size < live[number].size ? size : live[number].size, number);
    pattern_fill(moved, size, number);
    live[number].address = moved;
    live[number].size = size;
}

static void free_all(void)
{
    while (count > 0) {
        count--;
        CHECK_PATTERN(live[count].address, live[count].size, count);
        free(live[count].address);
    }
}

/* The child of a fork finds the objects of its parent, and continues with them. */
static void live_as_child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    deadline(60, "the child of a run in which requests are refused");
    size_t before = count;
    for (size_t i = 0; i < before && count < OBJECTS; i += 5)
        allocate_zeroed(live[i].size);
    free_all();
    check_heap("in the child of a fork");
    _exit(0);
}

static void fork_and_wait(void)
{
    pid_t child = fork();
    if (child == 0)
        live_as_child();
    int status = 0;
    CHECK(child > 0, "fork");
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ends with %#x", status);
}

/* Makes every kind of request; returns how many failed. */
static int play(void)
{
    static const size_t sizes[] = {16, 200, 3000, 30000, 100000, 700000, 2 * MIB};
    refused = 0;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < LENGTH(sizes); i++) {
            for (int copy = 0; copy < (sizes[i] < 5000 ? 8 : 1); copy++) {
                errno = 0;
                keep(malloc(sizes[i]), sizes[i], "malloc");
            }
            allocate_zeroed(sizes[i]);
            allocate_aligned(sizes[i]);
        }
        for (size_t i = 0; i < count; i += 3)
            resize(i, live[i].size * (i % 2 == 0 ? 3 : 1) / (i % 2 == 0 ? 1 : 3) + 1);
        malloc_trim(0);
        if (round == 0)
            free_all();
    }
    fork_and_wait();
    free_all();
    malloc_trim(0);
    check_heap("after a run");
    return refused;
}

#endif
