/* The tail of malloc: two threads replace objects at random, and each replacement is timed.
 *
 *   cc -O2 -pthread scripts/tail.c -o tail
 *   LD_PRELOAD=libquarry.so chrt -f 50 ./tail 10000000 0
 *
 * The first number is the replacements of each thread. With 1 as the second one, the first touch of
 * each page of the new object is timed as well, so that a page fault that only comes later counts.
 * Prints nanoseconds: the median, then what 99, 99.9, 99.99 and 99.999 % take at most. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 2, OBJECTS = 20000, BUCKETS = 1 << 20, PAGE = 4096 };

static long replacements;
static int touches;
static uint32_t *times[THREADS];

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

/* 70 % up to 256 bytes, 29 % up to 8 KiB, 1 % up to 128 KiB. */
static size_t draw_size(uint64_t *state)
{
    uint64_t kind = draw(state, 100);
    size_t most = kind < 70 ? 256 : kind < 99 ? 8192 : 131072;
    size_t least = kind < 70 ? 16 : kind < 99 ? 257 : 8193;
    return least + draw(state, most - least + 1);
}

static void touch(volatile char *object, size_t size)
{
    for (size_t at = 0; at < size; at += PAGE) object[at] = 1;
    object[size - 1] = 1;
}

static void *replace(void *argument)
{
    int thread = (int)(intptr_t)argument;
    uint64_t state = 88172645463325252u + 7919u * (unsigned)thread;
    char **objects = calloc(OBJECTS, sizeof *objects);
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(thread, &cpu);
    pthread_setaffinity_np(pthread_self(), sizeof cpu, &cpu);
    for (int at = 0; at < OBJECTS; at++) {
        size_t size = draw_size(&state);
        objects[at] = malloc(size);
        memset(objects[at], 1, size);
    }
    for (long done = 0; done < replacements; done++) {
        size_t at = draw(&state, OBJECTS), size = draw_size(&state);
        uint64_t began = now();
        free(objects[at]);
        objects[at] = malloc(size);
        if (touches) touch(objects[at], size);
        uint64_t took = now() - began;
        if (!touches) touch(objects[at], size);
        times[thread][took < BUCKETS ? took : BUCKETS - 1]++;
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    if (count != 3 || (replacements = atol(arguments[1])) < 1) {
        fprintf(stderr, "usage: tail REPLACEMENTS 0|1\n");
        return 2;
    }
    touches = atoi(arguments[2]);
    for (intptr_t thread = 0; thread < THREADS; thread++) {
        times[thread] = calloc(BUCKETS, sizeof **times);
        pthread_create(&threads[thread], NULL, replace, (void *)thread);
    }
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
    double shares[] = {0.5, 0.99, 0.999, 0.9999, 0.99999}, seen = 0;
    for (int ns = 0, next = 0; ns < BUCKETS && next < 5; ns++) {
        seen += times[0][ns] + times[1][ns];
        for (; next < 5 && seen >= shares[next] * THREADS * (double)replacements; next++)
            printf("%d%c", ns, next < 4 ? ' ' : '\n');
    }
    return 0;
}
