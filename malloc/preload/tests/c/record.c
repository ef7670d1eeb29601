/*
 * A process that shows its statistics to others. It reads commands, one per line, executes each,
 * and answers by a line. It sees its own statistics page through the symbol `quarry_record`.
 */
#include "check.h"
#include "filter.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { RECORDS = 16, RECORD_WORDS = 2048, OWNER = 2, PUBLICATIONS = 6 };

static volatile uint64_t *page(void)
{
    volatile uint64_t **symbol = (volatile uint64_t **)dlsym(RTLD_DEFAULT, "quarry_record");
    CHECK(symbol != NULL, "the library has no quarry_record");
    return *symbol;
}

/* Publications that process `pid` has made in a record of its own; 0 where it has none. */
static uint64_t publications(pid_t pid)
{
    volatile uint64_t *words = page();
    for (int i = 0; words != NULL && i < RECORDS; i++, words += RECORD_WORDS)
        if ((pid_t)(uint32_t)words[OWNER] == pid)
            return words[PUBLICATIONS];
    return 0;
}

/* Takes and frees a mapping: no CPU's list has mappings, so both calls take slow paths. */
static void take_slow_paths(void)
{
    void *block = opaque(malloc(opaque_size(2 << 20)));
    CHECK(block != NULL, "malloc failed");
    free(block);
}

/* Takes slow paths until the next publication of process `pid` is there. */
static void work_as(pid_t pid)
{
    uint64_t before = publications(pid);
    while (publications(pid) <= before) {
        take_slow_paths();
        sched_yield();
    }
}

/* Answers by one write, because children answer into the same pipe. */
__attribute__((format(printf, 1, 2))) static void answer(const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    CHECK(write(1, text, (size_t)length) == length, "the answer is not read");
}

/* Grows beyond 4 MiB. */
static void grow(void)
{
    for (int i = 0; i < 60; i++)
        CHECK(opaque(malloc(opaque_size(100 << 10))) != NULL, "malloc failed");
}

/* Enters a filter that ends the process if it makes a statistics page. */
static void enter_filter(void)
{
    struct filter filter;
    filter_start(&filter);
    filter_answer(&filter, SYS_memfd_create, SECCOMP_RET_KILL_PROCESS);
    filter_step(&filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter_install(&filter, 0);
}

static pid_t fork_child(bool works)
{
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        if (works)
            work_as(getpid());
        answer("child %d\n", (int)getpid());
        for (;;)
            pause();
    }
    return child;
}

/* Starts children that end too soon to be seen, a few at a time. */
static void storm(int children)
{
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            for (int round = 0; round < 20; round++)
                take_slow_paths();
            _exit(0);
        }
        int status = 0;
        if (i >= 20)
            CHECK(wait(&status) > 0 && status == 0, "a child ended by %#x", status);
    }
    int status = 0;
    while (wait(&status) > 0)
        CHECK(status == 0, "a child ended by %#x", status);
}

/* Closes descriptors that the program did not open, as daemons do, and opens a file under one of
 * their numbers. */
static void close_all(const char *number)
{
    CHECK(syscall(SYS_close_range, 3, ~0U, 0) == 0, "close_range");
    int mine = atoi(number), file = open("mine", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && write(file, "mine", 4) == 4, "a file of its own");
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    CHECK(dup2(file, mine) == mine && lseek(mine, 0, SEEK_SET) == 0, "its number");
    work_as(getpid());
    work_as(getpid());
    char bytes[8] = "";
    CHECK(read(mine, bytes, sizeof(bytes)) == 4 && strcmp(bytes, "mine") == 0, "it is %s", bytes);
}

static void work_in_vfork(void)
{
    pid_t parent = getpid();
    pid_t child = vfork();
    CHECK(child >= 0, "vfork");
    if (child == 0) {
        work_as(parent);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended by %#x", status);
}

static void enter_namespaces(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
        answer("refused %d\n", errno);
        return;
    }
    int gone[2];
    CHECK(pipe(gone) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        CHECK(getpid() == 1, "the first process of its namespace is %d", (int)getpid());
        work_as(1);
        CHECK(write(gone[1], "", 1) == 1, "pipe");
        for (;;)
            pause();
    }
    char byte;
    CHECK(read(gone[0], &byte, 1) == 1, "the child has died");
    answer("inside %d\n", (int)child);
}

static void dump_core(void)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_CORE, &all) == 0, "setrlimit");
    void **symbol = (void **)dlsym(RTLD_DEFAULT, "quarry_record");
    answer("page %p at %p\n", *symbol, (void *)symbol);
    abort();
}

static void obey(char **words, char **argv)
{
    const char *word = words[0], *argument = words[1];
    if (strcmp(word, "work") == 0) {
        work_as(getpid());
    } else if (strcmp(word, "grow") == 0) {
        grow();
    } else if (strcmp(word, "filter") == 0) {
        enter_filter();
    } else if (strcmp(word, "fork") == 0 || strcmp(word, "fork-idle") == 0) {
        for (int i = atoi(argument); i > 0; i--)
            fork_child(strcmp(word, "fork") == 0);
        return;
    } else if (strcmp(word, "storm") == 0) {
        storm(atoi(argument));
    } else if (strcmp(word, "close") == 0) {
        close_all(argument);
    } else if (strcmp(word, "vfork") == 0) {
        work_in_vfork();
    } else if (strcmp(word, "user") == 0) {
        CHECK(setresuid(65534, 65534, 65534) == 0, "setresuid");
        work_as(getpid());
    } else if (strcmp(word, "namespace") == 0) {
        enter_namespaces();
        return;
    } else if (strcmp(word, "exec") == 0) {
        execv("/proc/self/exe", argv);
        CHECK(0, "execv");
    } else if (strcmp(word, "core") == 0) {
        dump_core();
    } else if (strcmp(word, "exit") == 0) {
        exit(0);
    } else if (strcmp(word, "quick-exit") == 0) {
        _exit(0);
    }
    answer("did %s\n", word);
}

int main(int argc, char **argv)
{
    char line[256], word[256], rest[256];
    require_quarry();
    answer("ready %d\n", argc);
    setvbuf(stdin, NULL, _IONBF, 0);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *words[] = {word, rest};
        rest[0] = 0;
        if (sscanf(line, "%200s %200s", word, rest) >= 1)
            obey(words, argv);
    }
    return 0;
}
