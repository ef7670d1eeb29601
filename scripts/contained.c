/* A static program with libquarry.a inside, for aarch64.sh and musl.sh. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *quarry_version(void);

static void *work(void *unused) {
    for (size_t size = 1; size < 20000; size++) free(memset(malloc(size), 7, size));
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    /* Of another allocator it would be a little more than 100. */
    size_t usable = malloc_usable_size(malloc(100));
    printf("contained: quarry %s, %zu of 100 bytes\n", quarry_version(), usable);
    return usable != 112;
}
