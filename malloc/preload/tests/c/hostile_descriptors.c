/*
 * A daemon that closes every file descriptor and opens its own under the same numbers. The
 * allocator must neither need a closed descriptor nor write to one of the daemon's.
 */
#include "check.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { FILES = 64 };

static void *churn(void *unused)
{
    uint64_t random = 11;
    for (int i = 0; i < 20000; i++) {
        size_t size = random_size(&random, i % 100 == 0 ? 4 * MIB : 5000);
        void *object = malloc(size);
        CHECK(object != NULL, "malloc(%zu)", size);
        pattern_fill(object, size, size);
        CHECK_PATTERN(object, size, size);
        free(object);
    }
    return unused;
}

static void churn_everywhere(void)
{
    pthread_t threads[3];
    for (size_t i = 0; i < LENGTH(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, churn, NULL) == 0, "pthread_create");
    churn(NULL);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    malloc_trim(0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: %s FOLDER", argv[0]);
    require_quarry();
    void *early = malloc(5000);
    pattern_fill(early, 5000, 1);
    int errors = dup(2);
    CHECK(errors >= 0 && dup2(errors, 1000) == 1000, "dup2");
    CHECK(syscall(SYS_close_range, 0, 999, 0) == 0, "close_range");
    churn_everywhere();
    int files[FILES];
    for (int i = 0; i < FILES; i++) {
        char name[512];
        snprintf(name, sizeof(name), "%s/file-%d", argv[1], i);
        files[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(files[i] == i, "the file %s has the number %d", name, files[i]);
    }
    churn_everywhere();
    for (int i = 0; i < FILES; i++) {
        struct stat status;
        CHECK(fstat(files[i], &status) == 0, "the file %d was closed", i);
        long size = (long)status.st_size;
        CHECK(size == 0, "%ld bytes were written to the file %d", size, i);
    }
    CHECK_PATTERN(early, 5000, 1);
    free(early);
    return 0;
}
