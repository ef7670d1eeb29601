/* Libraries in several namespaces of one process: see dlmopen.sh. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*callback)(void *, int, char **, char **);
struct library {
    void *handle;
    int (*open)(const char *, void **);
    int (*exec)(void *, const char *, callback, void *, char **);
    int (*close)(void *);
    void (*release)(void *);
    char *(*print)(const char *, ...);
};

static void *must(void *what, const char *name) {
    if (!what) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(1);
    }
    return what;
}

static struct library library(void *handle) {
    struct library it = {.handle = must(handle, "open")};
    it.open = must(dlsym(handle, "sqlite3_open"), "sqlite3_open");
    it.exec = must(dlsym(handle, "sqlite3_exec"), "sqlite3_exec");
    it.close = must(dlsym(handle, "sqlite3_close"), "sqlite3_close");
    it.release = must(dlsym(handle, "sqlite3_free"), "sqlite3_free");
    it.print = must(dlsym(handle, "sqlite3_mprintf"), "sqlite3_mprintf");
    return it;
}

/* Runs in the program's namespace, called from another: its memory is the program's. */
static int row(void *into, int columns, char **values, char **names) {
    char **text = into;
    (void)names;
    for (int at = 0; at < columns; at++) {
        size_t size = strlen(*text) + strlen(values[at]) + 2;
        *text = realloc(*text, size);
        strcat(strcat(*text, values[at]), " ");
    }
    return 0;
}

static char *work(const struct library *it) {
    void *base = NULL;
    char *error = NULL, *text = calloc(1, 1);
    it->open(":memory:", &base);
    it->exec(base,
             "create table t (a, b); with recursive n (x) as (select 1 union all select x + 1 "
             "from n where x < 20000) insert into t select x * 7919 % 10007, hex(x) from n; "
             "create index i on t (b); select count(*), sum(a), max(b) from t; "
             "select b from t order by a desc, b limit 5;",
             row, &text, &error);
    char *printed = it->print("%s%d", text, 7);
    text = realloc(text, strlen(printed) + 1);
    strcpy(text, printed);
    it->release(printed);
    it->release(error);
    it->close(base);
    return text;
}

static void *thread(void *argument) { return work(argument); }

int main(int count, char **arguments) {
    int turns = atoi(arguments[count - 1]), same = 0;
    struct library here = library(dlopen("libsqlite3.so.0", RTLD_NOW));
    char *expected = work(&here);
    for (int turn = 0; turn < turns; turn++) {
        struct library there = library(dlmopen(LM_ID_NEWLM, "libsqlite3.so.0", RTLD_NOW));
        Lmid_t space;
        dlinfo(there.handle, RTLD_DI_LMID, &space);
        void *zlib = must(dlmopen(space, "libz.so.1", RTLD_NOW), "libz");
        pthread_t threads[2];
        pthread_create(&threads[0], NULL, thread, &there);
        pthread_create(&threads[1], NULL, thread, &here);
        char *own = work(&there);
        same += space != LM_ID_BASE && strcmp(own, expected) == 0;
        free(own);
        for (int at = 0; at < 2; at++) {
            void *found;
            pthread_join(threads[at], &found);
            same += strcmp(found, expected) == 0;
            free(found);
        }
        dlclose(zlib);
        dlclose(there.handle);
    }
    printf("%s\n%d of %d\n", expected, same, turns * 3);
    free(expected);
}
