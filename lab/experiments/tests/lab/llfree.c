// A stand-in for LLFree with the same interface: a bitmap under one lock. It defines what the
// experiment uses of `llfree.h`.
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct result { uint64_t frame : 55; bool reclaimed : 1; uint8_t error : 8; };
struct flags { uint8_t order : 8; bool movable : 1; };
struct meta_size { size_t llfree, local, trees, lower; };
struct meta { uint8_t *local, *trees, *lower; };
struct llfree { size_t frames; uint8_t *used; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct meta_size llfree_metadata_size(size_t cores, size_t frames) {
    return (struct meta_size){sizeof(struct llfree), cores, 0, frames};
}

struct result llfree_init(struct llfree *self, size_t cores, size_t frames, uint8_t init,
                          struct meta meta) {
    *self = (struct llfree){frames, meta.lower};
    return (struct result){.error = init != 0 || cores == 0 ? 4 : 0};
}

struct result llfree_get(struct llfree *self, size_t core, struct flags flags) {
    struct result result = {.error = 1};
    size_t size = (size_t)1 << flags.order;
    pthread_mutex_lock(&lock);
    for (size_t first = 0; result.error && first + size <= self->frames; first += size) {
        size_t at = 0;
        while (at < size && !self->used[first + at]) at++;
        if (at == size) {
            for (at = 0; at < size; at++) self->used[first + at] = 1;
            result = (struct result){.frame = first};
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

struct result llfree_put(struct llfree *self, size_t core, uint64_t frame, struct flags flags) {
    struct result result = {0};
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < (size_t)1 << flags.order; at++) {
        if (!self->used[frame + at]) result.error = 3;
        self->used[frame + at] = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

size_t llfree_free_frames(struct llfree *self) {
    size_t free = 0;
    for (size_t at = 0; at < self->frames; at++) free += !self->used[at];
    return free;
}
