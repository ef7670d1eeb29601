/* Threads allocate all sizes, check the contents, and free each other's objects; aarch64.sh runs
 * this under qemu. The argument names what malloc must use there: sequences or locks. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>

enum { OBJECTS = 400, ROUNDS = 20, THREADS = 4 };

static void *passed[THREADS][OBJECTS];
static size_t sizes[THREADS][OBJECTS];
static pthread_barrier_t barrier;

static size_t size_of(unsigned *seed) {
    *seed = *seed * 1103515245u + 12345u;
    unsigned shift = (*seed >> 8) % 18;
    return 1 + (*seed >> 4) % (16u << shift);
}

static void check(const unsigned char *object, size_t size, unsigned char mark) {
    if (object[0] != mark || object[size - 1] != mark) {
        printf("aarch64: contents of %zu bytes changed\n", size);
        exit(1);
    }
}

static void *work(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument, seed = me + 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            size_t size = size_of(&seed);
            unsigned char *object = i % 3 ? malloc(size) : calloc(1, size);
            if (!object || (uintptr_t)object % 16) exit(2);
            if (i % 3 == 0) check(object, size, 0);
            object = realloc(object, size + 32);
            size += 32;
            object[0] = object[size - 1] = (unsigned char)(me + i);
            passed[me][i] = object;
            sizes[me][i] = size;
        }
        pthread_barrier_wait(&barrier);
        unsigned from = (me + 1) % THREADS;
        for (int i = 0; i < OBJECTS; i++) {
            check(passed[from][i], sizes[from][i], (unsigned char)(from + i));
            free(passed[from][i]);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* True if malloc arms sequences; no other code of this process does. When the thread loses its CPU
 * after a sequence, the kernel clears rseq_cs, so a single look may come too late. */
static int has_sequences(void) {
    for (int i = 0; __rseq_size && i < 1000; i++) {
        free(malloc(24));
        struct rseq *own = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
        if (*(volatile __u64 *)&own->rseq_cs) return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "quarry_version");
    if (!version) {
        puts("aarch64: malloc is not Quarry's");
        return 1;
    }
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    const char *stands_on = has_sequences() ? "sequences" : "locks";
    printf("aarch64: ran on quarry %s, %s\n", version(), stands_on);
    if (count == 2 && strcmp(arguments[1], stands_on)) return 1;
    return 0;
}
