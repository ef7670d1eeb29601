/*
 * Lives in malloc: 2 threads replace 20,000 objects of random sizes, 16 bytes to 4 KiB, most of
 * them small, and write the first bytes of each. A block of 300 KiB comes and goes now and then.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 20000, STEPS = 3000000 };

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void *work(void *argument)
{
    uint64_t state = 0x9e3779b97f4a7c15u ^ (uintptr_t)argument;
    char **objects = calloc(OBJECTS, sizeof(*objects));
    if (objects == NULL)
        abort();
    for (int step = 0; step < STEPS; step++) {
        uint64_t number = next(&state);
        char **object = &objects[number % OBJECTS];
        size_t size = 16 + (number >> 32) % (16u << (number >> 20 & 7));
        if (step % 5000 == 0)
            size = 300 * 1024;
        free(*object);
        *object = malloc(size);
        if (*object == NULL)
            abort();
        memset(*object, step & 0xff, size < 64 ? size : 64);
    }
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    free(objects);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0)
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
