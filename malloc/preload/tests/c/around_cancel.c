/*
 * While a thread has asynchronous cancellation, POSIX lets it call only three functions, and malloc
 * is not one of them. So the threads switch it on only while they compute. They are cancelled at
 * any point, and their cleanup handlers free their objects.
 */
#include "deadline.h"

#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 300, AT_ONCE = 6, OBJECTS = 20 };

struct work {
    void *objects[OBJECTS];
    uint64_t random;
};

static sem_t started;

static void free_objects(void *argument)
{
    struct work *work = argument;
    for (size_t i = 0; i < OBJECTS; i++)
        free(work->objects[i]);
    free(work);
}

static void *compute(void *number)
{
    struct work *work = calloc(1, sizeof(*work));
    CHECK(work != NULL, "calloc");
    work->random = (uint64_t)(uintptr_t)number << 32;
    pthread_cleanup_push(free_objects, work);
    for (uint64_t step = 0;; step++) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        for (size_t i = 0; i < OBJECTS; i++) {
            size_t size = random_size(&work->random, step % 10 == 9 ? 100000 : 2000);
            void *object = malloc(size);
            CHECK(object != NULL, "malloc(%zu)", size);
            memset(object, 1, size);
            free(work->objects[i]);
            work->objects[i] = object;
        }
        if (step == 3)
            sem_post(&started);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        for (int i = 0; i < 2000; i++)
            opaque(work);
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    }
    pthread_cleanup_pop(1);
}

int main(void)
{
    require_quarry();
    deadline(60, "cancelled threads");
    sem_init(&started, 0, 0);
    size_t held = 0;
    for (size_t number = 0; number < THREADS; number += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++)
            CHECK(pthread_create(&threads[i], NULL, compute, (void *)(number + i)) == 0, "thread");
        for (size_t i = 0; i < AT_ONCE; i++)
            while (sem_wait(&started) != 0)
                continue;
        for (size_t i = 0; i < AT_ONCE; i++)
            CHECK(pthread_cancel(threads[i]) == 0, "pthread_cancel");
        for (size_t i = 0; i < AT_ONCE; i++) {
            void *result = NULL;
            CHECK(pthread_join(threads[i], &result) == 0, "pthread_join");
            CHECK(result == PTHREAD_CANCELED, "a thread ended with %p", result);
        }
        struct mallinfo2 now = mallinfo2();
        if (number == 10 * AT_ONCE)
            held = now.uordblks + now.hblkhd;
        if (number > 10 * AT_ONCE && !testing_a_peer())
            CHECK(now.uordblks + now.hblkhd < held + 2 * MIB, "%zu bytes in use, then %zu", held,
                  now.uordblks + now.hblkhd);
    }
    return 0;
}
