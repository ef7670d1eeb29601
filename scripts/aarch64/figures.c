/* Figures of the allocator that serves this program, from inside an emulated machine:
 *
 *   figures page               bytes of a page
 *   figures memory             KiB in memory after one request, with many objects, and three
 *                              seconds after all but one in 64 have been freed
 *   figures count              instructions of malloc and of free, of 32 objects each, and of both
 *                              in turn, where the machine's clock counts instructions (`-icount
 *                              shift=4` of qemu)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 32, BATCHES = 2000, SIZE = 48, MANY = 40000 };

static void *objects[MANY];

/* Not by /proc/self/statm, which is many pages off where the kernel counts by CPU. */
static long resident_kib(void) {
    char line[200];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && kib < 0 && fgets(line, sizeof line, file)) sscanf(line, "Rss: %ld", &kib);
    if (!file || kib < 0) exit(2);
    fclose(file);
    return kib;
}

/* Sizes up to 1 KiB, small ones more often; objects that live on are anywhere among the others. */
static int memory(void) {
    uint32_t seed = 1;
    free(malloc(100));
    long rest = resident_kib();
    for (int i = 0; i < MANY; i++) {
        seed = seed * 1103515245u + 12345u;
        size_t size = 16 + (seed >> 8) % (16u << (seed >> 20) % 7);
        memset(objects[i] = malloc(size), 1, size);
    }
    long full = resident_kib();
    for (int i = 0; i < MANY; i++) {
        seed = seed * 1103515245u + 12345u;
        if ((seed >> 16) % 64 != 0) free(objects[i]);
    }
    sleep(3);
    free(malloc(100));
    return printf("%ld %ld %ld\n", rest, full, resident_kib()) < 0;
}

static uint64_t ticks(void) {
    uint64_t now;
    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(now)::"memory");
    return now;
}

static uint64_t frequency(void) {
    uint64_t hertz;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
    return hertz;
}

__attribute__((noinline)) static void *no_malloc(size_t size) {
    return (void *)size;
}
__attribute__((noinline)) static void no_free(void *object) { __asm__ volatile("" ::"r"(object)); }

/* The least ticks that BATCH calls took, so that no interrupt counts: malloc, free, and both in
 * turn. The functions above have one instruction each. */
static void measure(void *(*take)(size_t), void (*give)(void *), uint64_t best[3]) {
    best[0] = best[1] = best[2] = UINT64_MAX;
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t marks[4];
        marks[0] = ticks();
        for (int i = 0; i < BATCH; i++) objects[i] = take(SIZE);
        marks[1] = ticks();
        for (int i = 0; i < BATCH; i++) give(objects[i]);
        marks[2] = ticks();
        for (int i = 0; i < BATCH; i++) give(take(SIZE));
        marks[3] = ticks();
        for (int part = 0; part < 3; part++)
            if (marks[part + 1] - marks[part] < best[part])
                best[part] = marks[part + 1] - marks[part];
    }
}

static int count(void) {
    uint64_t none[3], own[3];
    /* `-icount shift=4`: an instruction takes 16 ns of the machine's time. */
    double each = 1e9 / (double)frequency() / 16 / BATCH;
    measure(no_malloc, no_free, none);
    measure(malloc, free, own);
    for (int part = 0; part < 3; part++)
        printf("%.0f ", (double)(own[part] - none[part]) * each + (part == 2 ? 2 : 1));
    return puts("") < 0;
}

int main(int number, char **arguments) {
    const char *what = number > 1 ? arguments[1] : "";
    if (!strcmp(what, "page")) return printf("%d\n", getpagesize() / 1024) < 0;
    if (!strcmp(what, "memory")) return memory();
    if (!strcmp(what, "count")) return count();
    return 2;
}
