/*
 * Sessions of a server as objects of a cache. A constructor prepares each session once; a reserve
 * ensures that a request which has begun can be finished; destroying the cache returns the number
 * of forgotten sessions.
 *
 *   cc -std=c99 -Imalloc/preload/include malloc/preload/examples/sessions.c \
 *       -Ltarget/release -lquarry-full -Wl,-rpath,target/release -o sessions
 */
#include <quarry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    unsigned id;
    unsigned used;
    char buffer[1000];
};

static unsigned prepared;

/* Runs once for each object: a session is freed with an empty buffer. */
static void prepare(void *object)
{
    struct session *session = object;
    memset(session, 0, sizeof(*session));
    session->id = ++prepared;
}

static struct session *open_session(quarry_cache *sessions, const char *greeting)
{
    struct session *session = quarry_cache_alloc(sessions, 0);
    if (session != NULL) {
        session->used++;
        strcpy(session->buffer, greeting);
    }
    return session;
}

static void close_session(quarry_cache *sessions, struct session *session)
{
    session->buffer[0] = '\0';
    quarry_cache_free(sessions, session);
}

int main(void)
{
    quarry_cache *sessions = quarry_cache_create("sessions", sizeof(struct session), 0, prepare,
                                                 QUARRY_HWCACHE_ALIGN);
    if (sessions == NULL) {
        perror("quarry_cache_create");
        return EXIT_FAILURE;
    }
    /* Whichever object a session gets, it is prepared. */
    for (int i = 0; i < 1000; i++) {
        struct session *session = open_session(sessions, "hello");
        if (session == NULL || session->id == 0 || session->id > prepared)
            return EXIT_FAILURE;
        close_session(sessions, session);
    }
    printf("1000 sessions in prepared objects: %s\n", prepared < 1000 ? "yes" : "no");

    /* Reserves both ends of a connection; after that, taking them cannot fail. */
    quarry_reserve *pair = quarry_cache_prefill(sessions, 2);
    if (pair == NULL) {
        perror("quarry_cache_prefill");
        return EXIT_FAILURE;
    }
    struct session *left = quarry_reserve_alloc(pair);
    struct session *right = quarry_reserve_alloc(pair);
    quarry_reserve_free(pair);
    printf("two ends: %s\n", left != NULL && right != NULL && left != right ? "yes" : "no");

    /* A table of pages beside the objects. */
    void *table = quarry_pages_alloc(3, QUARRY_ZERO);
    printf("eight pages of zeroes: %s\n", table != NULL && *(char *)table == 0 ? "yes" : "no");
    quarry_pages_free(table, 3);

    close_session(sessions, left);
    printf("forgotten: %ld\n", quarry_cache_destroy(sessions));
    close_session(sessions, right);
    printf("forgotten: %ld\n", quarry_cache_destroy(sessions));
    return EXIT_SUCCESS;
}
