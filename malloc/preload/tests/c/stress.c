/*
 * All sizes, all entry points, threads, frees on other threads, and on demand forks and signals.
 * Every object carries a checksum of its contents and the place that holds it, so that an object
 * with two owners is found when the first of them looks. STEPS bounds a run. A run with the same
 * SEED is the same, except for the order in which threads meet.
 * usage: stress SEED THREADS STEPS [fork] [signals]
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { SLOTS = 400, SHARED = 512 };

/* Stands at the front of every object; the pattern fills the rest of it. */
struct object {
    size_t size;
    uint64_t seed;
    uint64_t seal; /* of the two words above */
    const void *owner; /* the place that holds the object */
};

struct worker {
    pthread_t thread;
    uint64_t number;
    uint64_t random;
    uint64_t step;
    struct object *slots[SLOTS];
};

static uint64_t seed;
static uint64_t steps;
static int forks;
static _Atomic(struct object *) shared[SHARED];

static uint64_t seal_of(const struct object *object)
{
    return mix(object->size ^ mix(object->seed));
}

#define CHECK_STEP(worker, condition, format, ...)                                               \
    CHECK(condition, "seed %lu, thread %lu, step %lu: " format, seed, (worker)->number,          \
          (worker)->step, __VA_ARGS__)

static void verify(const struct worker *worker, const struct object *object, const void *owner)
{
    CHECK_STEP(worker, object->owner == owner, "%p belongs to %p, not to %p", (const void *)object,
               object->owner, owner);
    CHECK_STEP(worker, object->seal == seal_of(object), "the head of %p changed: size %zu",
               (const void *)object, object->size);
    size_t rest = object->size - sizeof(*object);
    size_t at = pattern_mismatch(object + 1, rest, object->seed);
    CHECK_STEP(worker, at == rest, "%p of %zu bytes changed at %zu", (const void *)object,
               object->size, at + sizeof(*object));
}

static struct object *sign(struct worker *worker, struct object *object, size_t size,
                           const void *owner)
{
    CHECK_STEP(worker, object != NULL, "no memory for %zu bytes", size);
    CHECK_STEP(worker, malloc_usable_size(object) >= size, "%zu usable bytes of %zu",
               malloc_usable_size(object), size);
    object->size = size;
    object->seed = next_random(&worker->random);
    object->seal = seal_of(object);
    object->owner = owner;
    pattern_fill(object + 1, size - sizeof(*object), object->seed);
    return object;
}

/* Mostly small; one in 16 up to 64 KiB, one in 500 up to 4 MiB. */
static size_t pick_size(struct worker *worker)
{
    size_t limit = worker->step % 500 == 0 ? 4 * MIB : worker->step % 16 == 0 ? 64 * KIB : 2 * KIB;
    return sizeof(struct object) + random_size(&worker->random, limit);
}

static void *allocate_zeroed(struct worker *worker, size_t size)
{
    unsigned char *bytes = calloc(1, size);
    CHECK_STEP(worker, bytes != NULL, "no memory for %zu bytes", size);
    CHECK_STEP(worker, bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0,
               "calloc of %zu bytes is not zero", size);
    return bytes;
}

static void *allocate_aligned(struct worker *worker, size_t size)
{
    size_t alignment = (size_t)16 << (next_random(&worker->random) % 12);
    void *object = NULL;
    int error = posix_memalign(&object, alignment, size);
    CHECK_STEP(worker, error == 0 && (uintptr_t)object % alignment == 0,
               "posix_memalign(%zu, %zu) = %d, %p", alignment, size, error, object);
    return object;
}

static struct object *create(struct worker *worker, const void *owner)
{
    size_t size = pick_size(worker);
    switch (next_random(&worker->random) % 8) {
    case 0:
        return sign(worker, allocate_zeroed(worker, size), size, owner);
    case 1:
        return sign(worker, allocate_aligned(worker, size), size, owner);
    default:
        return sign(worker, malloc(size), size, owner);
    }
}

static void destroy(const struct worker *worker, struct object *object, const void *owner)
{
    if (object == NULL)
        return;
    verify(worker, object, owner);
    object->seal = 0;
    free(object);
}

static struct object *resize(struct worker *worker, struct object *object, const void *owner)
{
    size_t before = object->size;
    uint64_t old_seed = object->seed;
    size_t size = pick_size(worker);
    verify(worker, object, owner);
    object = realloc(object, size);
    CHECK_STEP(worker, object != NULL, "no memory for %zu bytes", size);
    size_t kept = (before < size ? before : size) - sizeof(*object);
    size_t at = pattern_mismatch(object + 1, kept, old_seed);
    CHECK_STEP(worker, at == kept, "realloc from %zu to %zu lost the contents at %zu", before, size,
               at);
    return sign(worker, object, size, owner);
}

/* A burst of one size, freed in an order of its own: fills and empties whole batches. */
static void burst(struct worker *worker)
{
    enum { LENGTH_MAX = 600 };
    struct object *objects[LENGTH_MAX];
    size_t size = sizeof(struct object) + random_size(&worker->random, 1000);
    size_t length = next_random(&worker->random) % LENGTH_MAX;
    for (size_t i = 0; i < length; i++)
        objects[i] = sign(worker, malloc(size), size, objects);
    for (size_t i = length; i > 1; i--) {
        size_t other = next_random(&worker->random) % i;
        struct object *swapped = objects[i - 1];
        objects[i - 1] = objects[other];
        objects[other] = swapped;
    }
    for (size_t i = 0; i < length; i++)
        destroy(worker, objects[i], objects);
}

/* Hands the object of `slot` over, and takes the one that another thread left. */
static void exchange(struct worker *worker, struct object **slot)
{
    _Atomic(struct object *) *place = &shared[next_random(&worker->random) % SHARED];
    if (*slot == NULL)
        *slot = create(worker, place);
    (*slot)->owner = place;
    *slot = atomic_exchange(place, *slot);
    if (*slot == NULL)
        return;
    verify(worker, *slot, place);
    (*slot)->owner = slot;
}

static void one_step(struct worker *worker)
{
    struct object **slot = &worker->slots[next_random(&worker->random) % SLOTS];
    worker->step++;
    switch (next_random(&worker->random) % 16) {
    case 0:
    case 1:
    case 2:
        exchange(worker, slot);
        break;
    case 3:
    case 4:
        *slot = *slot == NULL ? create(worker, slot) : resize(worker, *slot, slot);
        break;
    case 5:
        if (worker->step % 4 == 0)
            burst(worker);
        break;
    default:
        destroy(worker, *slot, slot);
        *slot = create(worker, slot);
    }
}

/* The child goes on with its own objects, and ends without touching those of other threads. */
static void fork_and_go_on(struct worker *worker)
{
    pid_t child = fork();
    CHECK_STEP(worker, child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        for (int i = 0; i < 500; i++) {
            struct object **slot = &worker->slots[next_random(&worker->random) % SLOTS];
            worker->step++;
            destroy(worker, *slot, slot);
            *slot = create(worker, slot);
        }
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        CHECK_STEP(worker, errno == EINTR, "waitpid: %s", strerror(errno));
    CHECK_STEP(worker, WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with %#x",
               status);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t fork_every = steps / 10 + 1;
    while (worker->step < steps) {
        one_step(worker);
        if (forks && worker->step % fork_every == 0)
            fork_and_go_on(worker);
    }
    for (size_t i = 0; i < SLOTS; i++)
        destroy(worker, worker->slots[i], &worker->slots[i]);
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
}

static void start_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    struct itimerval interval = {{0, 100}, {0, 100}};
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0, "setitimer");
}

int main(int argc, char **argv)
{
    CHECK(argc >= 4, "usage: %s SEED THREADS STEPS [fork] [signals]", argv[0]);
    require_quarry();
    seed = strtoul(argv[1], NULL, 10);
    size_t threads = strtoul(argv[2], NULL, 10);
    steps = strtoul(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++) {
        forks |= strcmp(argv[i], "fork") == 0;
        if (strcmp(argv[i], "signals") == 0)
            start_signals();
    }
    struct worker *workers = calloc(threads, sizeof(*workers));
    CHECK(workers != NULL, "no memory for %zu workers", threads);
    for (size_t i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].random = mix(seed * 1000 + i);
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "pthread_create");
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    for (size_t i = 0; i < SHARED; i++)
        destroy(&workers[0], shared[i], &shared[i]);
    free(workers);
    return 0;
}
