/*
 * A tracer inside the traced process: it puts breakpoints on the probes that the notes of the
 * shared object name, raises their semaphores as a tracer does, and checks what the probes say.
 *
 *   probes MEAN
 */
#define _GNU_SOURCE
#include "check.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__
static const unsigned char BREAKPOINT[] = {0xcc};
#define ARGUMENTS3 "8@%rdi 8@%rsi 8@%rdx"
#define ARGUMENTS1 "8@%rdi"
#else
static const unsigned char BREAKPOINT[] = {0x00, 0x00, 0x20, 0xd4};
#define ARGUMENTS3 "8@x0 8@x1 8@x2"
#define ARGUMENTS1 "8@x0"
#endif

struct probe {
    const char *name;
    const char *arguments;
    unsigned char *place;
    volatile uint16_t *semaphore;
};
static struct probe probes[] = {{"alloc", ARGUMENTS3, 0, 0}, {"free", ARGUMENTS1, 0, 0}};
enum { ALLOC, FREE };

static struct event {
    uintptr_t object;
    size_t size, weight;
} events[1 << 16];
static volatile size_t allocs, frees, unknown_frees;

static void reached(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
#ifdef __x86_64__
    unsigned char *place = (unsigned char *)machine->gregs[REG_RIP] - 1;
    uintptr_t one = machine->gregs[REG_RDI], two = machine->gregs[REG_RSI];
    uintptr_t three = machine->gregs[REG_RDX];
#else
    unsigned char *place = (unsigned char *)machine->pc;
    uintptr_t one = machine->regs[0], two = machine->regs[1], three = machine->regs[2];
    machine->pc += 4;
#endif
    if (place == probes[ALLOC].place) {
        CHECK(allocs < LENGTH(events), "too many events");
        events[allocs++] = (struct event){one, two, three};
        return;
    }
    CHECK(place == probes[FREE].place, "a breakpoint of another tracer");
    for (size_t i = allocs; i > 0; i--) {
        if (events[i - 1].object == one) {
            events[i - 1].object = 0;
            frees++;
            return;
        }
    }
    unknown_frees++;
}

static void take_note(const unsigned char *text, size_t bytes, uintptr_t base)
{
    uint64_t words[3];
    memcpy(words, text, sizeof words);
    const char *provider = (const char *)text + sizeof words;
    const char *name = provider + strlen(provider) + 1;
    const char *arguments = name + strlen(name) + 1;
    CHECK(arguments < (const char *)text + bytes, "a note that is too short");
    CHECK(strcmp(provider, "otel_memory") == 0, "provider %s", provider);
    for (size_t i = 0; i < LENGTH(probes); i++) {
        if (strcmp(name, probes[i].name) == 0) {
            CHECK(probes[i].place == NULL, "two places of %s", name);
            CHECK(strcmp(arguments, probes[i].arguments) == 0, "%s has %s", name, arguments);
            probes[i].place = (unsigned char *)base + words[0];
            probes[i].semaphore = (uint16_t *)(base + words[2]);
        }
    }
}

static void read_notes(const char *path, uintptr_t base)
{
    int fd = open(path, O_RDONLY);
    struct stat status;
    CHECK(fd >= 0 && fstat(fd, &status) == 0, "%s", path);
    unsigned char *file = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(file != MAP_FAILED, "%s", path);
    ElfW(Ehdr) *head = (void *)file;
    ElfW(Shdr) *sections = (void *)(file + head->e_shoff);
    const char *names = (char *)file + sections[head->e_shstrndx].sh_offset;
    for (int i = 0; i < head->e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, ".note.stapsdt") != 0)
            continue;
        CHECK(sections[i].sh_type == SHT_NOTE, "the section is no note");
        unsigned char *at = file + sections[i].sh_offset, *end = at + sections[i].sh_size;
        while (at < end) {
            ElfW(Nhdr) *note = (void *)at;
            unsigned char *text = at + sizeof *note + (note->n_namesz + 3) / 4 * 4;
            CHECK(note->n_type == 3 && strcmp((char *)at + sizeof *note, "stapsdt") == 0, "a note");
            take_note(text, note->n_descsz, base);
            at = text + (note->n_descsz + 3) / 4 * 4;
        }
    }
    /* The kernel finds a semaphore by its place in the file. */
    for (size_t i = 0; i < LENGTH(probes); i++) {
        int is_in_file = 0;
        CHECK(probes[i].place != NULL, "no probe %s", probes[i].name);
        uintptr_t place = (uintptr_t)probes[i].semaphore - base;
        for (int j = 0; j < head->e_shnum; j++)
            is_in_file |= sections[j].sh_type == SHT_PROGBITS && (sections[j].sh_flags & SHF_WRITE)
                          && place >= sections[j].sh_addr
                          && place < sections[j].sh_addr + sections[j].sh_size;
        CHECK(is_in_file, "the semaphore of %s is not in the file", probes[i].name);
    }
    munmap(file, status.st_size);
    close(fd);
}

static int find_library(struct dl_phdr_info *object, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    if (strstr(object->dlpi_name, "libquarry") == NULL)
        return 0;
    read_notes(object->dlpi_name, object->dlpi_addr);
    return 1;
}

static void attach(int by)
{
    for (size_t i = 0; i < LENGTH(probes); i++)
        *probes[i].semaphore += by;
}

static void set_breakpoints(void)
{
    size_t page = sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < LENGTH(probes); i++) {
        void *start = (void *)((uintptr_t)probes[i].place & ~(page - 1));
        CHECK(mprotect(start, page, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect");
        memcpy(probes[i].place, BREAKPOINT, sizeof BREAKPOINT);
        __builtin___clear_cache((char *)probes[i].place, (char *)probes[i].place + 4);
        CHECK(mprotect(start, page, PROT_READ | PROT_EXEC) == 0, "mprotect");
    }
    struct sigaction action = {.sa_sigaction = reached, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0, "sigaction");
}

/* A slow path for certain: the largest request, which no list keeps. */
static void take_slow_path(void)
{
    void *volatile large = malloc(64 << 20);
    CHECK(large != NULL, "no memory");
    free(large);
}

enum { OBJECTS = 20000 };

static void work(void)
{
    static void *objects[OBJECTS];
    static const size_t sizes[] = {24, 100, 1000, 5000, 40000, 1500000};
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < OBJECTS; i++) {
            size_t class = i % 100 == 0 ? 4 : i % 4;
            objects[i] = malloc(sizes[i % 5000 == 1 ? 5 : class]);
            CHECK(objects[i] != NULL, "no memory");
        }
        for (size_t i = 0; i < OBJECTS; i++)
            free(objects[i]);
    }
}

static double bytes_of_work(void)
{
    double bytes = 0;
    static const size_t sizes[] = {24, 100, 1000, 5000, 40000, 1500000};
    for (size_t i = 0; i < OBJECTS; i++)
        bytes += sizes[i % 5000 == 1 ? 5 : i % 100 == 0 ? 4 : i % 4];
    return 3 * bytes;
}

static void check_events(double mean, double bytes)
{
    double sum = 0, variance = 0;
    for (size_t i = 0; i < allocs; i++) {
        CHECK(events[i].size > 0, "a sample without a size");
        CHECK(events[i].weight > 0 && events[i].weight % (size_t)mean == 0, "weight %zu",
              events[i].weight);
        sum += events[i].weight;
    }
    /* The points of a Poisson process: as many as expected, within 6 standard deviations. */
    variance = bytes * mean;
    CHECK((sum - bytes) * (sum - bytes) < 36 * variance, "weights %.0f for %.0f bytes", sum, bytes);
    CHECK(unknown_frees == 0, "%zu frees of objects that were no samples", unknown_frees);
    CHECK(frees == allocs, "%zu samples, %zu of them freed", allocs, frees);
}

static void *elsewhere(void *unused)
{
    work();
    return unused;
}

int main(int count, char **arguments)
{
    CHECK(count >= 2, "usage: probes MEAN");
    double mean = atof(arguments[1]);
    CHECK(dl_iterate_phdr(find_library, NULL) == 1, "the library is not loaded");
    set_breakpoints();

    work();
    CHECK(allocs == 0 && frees == 0, "events without a tracer");

    attach(1);
    take_slow_path();
    allocs = frees = 0;
    work();
    check_events(mean, bytes_of_work());

    /* A sample that grows in place or moves is freed, and allocated again. */
    allocs = frees = 0;
    void *volatile grown = malloc(3 << 20);
    for (size_t size = 4 << 20; size <= 64 << 20; size *= 2) {
        size_t before = allocs;
        grown = realloc(grown, size);
        CHECK(grown != NULL, "no memory");
        CHECK(allocs == before + 1 && events[before].size == size, "a size of %zu", size);
        CHECK(events[before].object == (uintptr_t)grown, "its address");
    }
    free(grown);
    CHECK(frees == allocs && unknown_frees == 0, "%zu of %zu freed", frees, allocs);

    /* The second of two tracers stays. */
    attach(1);
    attach(-1);
    take_slow_path();
    allocs = frees = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, elsewhere, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(allocs > 0, "no sample of another thread");

    /* A child has the breakpoints and semaphores of its parent. */
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        take_slow_path();
        allocs = frees = 0;
        work();
        check_events(mean, bytes_of_work());
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %d", status);

    void *volatile kept = malloc(2 << 20);
    attach(-1);
    take_slow_path();
    allocs = frees = 0;
    work();
    free(kept);
    CHECK(allocs == 0 && frees == 0, "events after the tracer has gone");
    return 0;
}
