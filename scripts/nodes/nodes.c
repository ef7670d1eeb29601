/* Where the memory of a machine with several NUMA nodes lies, by move_pages: a thread on each node
 * makes objects, blocks, mappings and cached pages, and frees what others have made.
 *
 *   nodes [local | interleave]      as QUARRY_NUMA is; without one, the system places pages
 *
 * Prints for each kind on which nodes the memory lies. All of it must lie on the node of the thread
 * that made it, but for objects that other threads have freed on its CPU: at most an array of each
 * size. With `interleave`, each node must have its share of the whole.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "quarry.h"

enum { MAX_NODES = 8, OBJECTS = 30000, BLOCKS = 24, MAPPINGS = 4, PAGES = 400 };
/* Objects that a narrow array of a slot holds, at most; and the largest of OBJECTS. */
enum { ARRAY = 128, MOST_BYTES = 1000 };

static int nodes;
static int interleaves, is_local;
static int failures;

/* Pages, or objects, by the node on which they lie. */
typedef struct {
    long on[MAX_NODES];
    long all;
} Found;

static Found whole;

/* Pins the thread to the first CPU of a node. */
static void go_to(int node)
{
    char name[80];
    int cpu = -1;
    cpu_set_t set;
    snprintf(name, sizeof name, "/sys/devices/system/node/node%d/cpulist", node);
    FILE *file = fopen(name, "r");
    CHECK(file && fscanf(file, "%d", &cpu) == 1, "%s", name);
    fclose(file);
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0, "CPU %d", cpu);
    unsigned now;
    CHECK(syscall(SYS_getcpu, NULL, &now, NULL) == 0 && (int)now == node, "on node %u", now);
}

/* Adds what lies at `address`, unless that page is not in memory. */
static void look_at(Found *found, const void *address)
{
    void *page = (void *)((uintptr_t)address & ~(PAGE - 1));
    int status = -1;
    CHECK(syscall(SYS_move_pages, 0, 1L, &page, NULL, &status, 0) == 0, "move_pages");
    CHECK(status < nodes, "node %d", status);
    if (status < 0) return;
    found->on[status]++;
    found->all++;
    whole.on[status]++;
    whole.all++;
}

/* Adds the pages of `bytes` bytes. */
static void look(Found *found, const char *start, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PAGE) look_at(found, start + at);
}

/* What a thread on a node makes. */
typedef struct {
    void *objects[OBJECTS];
    size_t sizes[OBJECTS];
    char *blocks[BLOCKS];
    char *mappings[MAPPINGS];
} Made;

static size_t block_bytes(int number)
{
    return (40 + 37 * (size_t)number) * KIB;
}

static size_t mapping_bytes(int number)
{
    return (2 + (size_t)number) * MIB + 12345;
}

/* Not in the heap: threads on other nodes write there first. */
static Made tables[MAX_NODES];

static void make(Made *made)
{
    for (int i = 0; i < OBJECTS; i++) {
        made->sizes[i] = 1 + (size_t)i * 7919 % MOST_BYTES;
        made->objects[i] = malloc(made->sizes[i]);
        memset(made->objects[i], 1, made->sizes[i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        made->blocks[i] = malloc(block_bytes(i));
        memset(made->blocks[i], 2, block_bytes(i));
    }
    for (int i = 0; i < MAPPINGS; i++) {
        made->mappings[i] = malloc(mapping_bytes(i));
        memset(made->mappings[i], 3, mapping_bytes(i));
    }
}

static void drop(Made *made)
{
    for (int i = 0; i < OBJECTS; i++) free(made->objects[i]);
    for (int i = 0; i < BLOCKS; i++) free(made->blocks[i]);
    for (int i = 0; i < MAPPINGS; i++) free(made->mappings[i]);
}

/* Prints a row, and judges whether all but `strangers` lie on the node. */
static void judge(const char *kind, int node, Found found, long strangers)
{
    int right = found.all > 0 && (interleaves || found.all - found.on[node] <= strangers);
    printf("nodes: %-30s of node %d:", kind, node);
    for (int other = 0; other < nodes; other++) printf(" %5ld", found.on[other]);
    puts(right ? "" : "   WRONG");
    failures += !right;
}

/* How many sizes the objects have for the allocator. */
static long sizes_of(const Made *made)
{
    static char seen[MOST_BYTES * 2];
    long count = 0;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < OBJECTS; i++) {
        size_t usable = malloc_usable_size(made->objects[i]);
        count += !seen[usable];
        seen[usable] = 1;
    }
    return count;
}

static void judge_made(const char *when, int node, const Made *made)
{
    Found objects = {0}, blocks = {0}, mappings = {0};
    char name[80];
    for (int i = 0; i < OBJECTS; i++) look_at(&objects, made->objects[i]);
    for (int i = 0; i < BLOCKS; i++) look(&blocks, made->blocks[i], block_bytes(i));
    for (int i = 0; i < MAPPINGS; i++) look(&mappings, made->mappings[i], mapping_bytes(i));
    snprintf(name, sizeof name, "objects, %s", when);
    judge(name, node, objects, sizes_of(made) * ARRAY);
    snprintf(name, sizeof name, "pages of blocks, %s", when);
    judge(name, node, blocks, 0);
    snprintf(name, sizeof name, "pages of mappings, %s", when);
    judge(name, node, mappings, 0);
}

/* Starts a thread on a node, and waits for it. */
typedef struct {
    void (*work)(int, void *);
    int node;
    void *with;
} Visit;

static void *visit(void *argument)
{
    Visit *it = argument;
    go_to(it->node);
    it->work(it->node, it->with);
    return NULL;
}

static void on_node(int node, void (*work)(int, void *), void *with)
{
    pthread_t thread;
    Visit it = {work, node, with};
    CHECK(pthread_create(&thread, NULL, visit, &it) == 0, "a thread");
    pthread_join(thread, NULL);
}

static void make_there(int node, void *with)
{
    (void)node;
    make(with);
}

static void drop_there(int node, void *with)
{
    (void)node;
    drop(with);
}

/* Each thread makes its own, at first while the others do, too. */
static void places(void)
{
    pthread_t threads[MAX_NODES];
    Visit visits[MAX_NODES];
    for (int node = 0; node < nodes; node++) {
        visits[node] = (Visit){make_there, node, &tables[node]};
        CHECK(pthread_create(&threads[node], NULL, visit, &visits[node]) == 0, "a thread");
    }
    for (int node = 0; node < nodes; node++) pthread_join(threads[node], NULL);
    for (int node = 0; node < nodes; node++) judge_made("fresh", node, visits[node].with);
    /* What the thread of each node has made, that of the next one frees, and then makes its own. */
    for (int node = 0; node < nodes; node++)
        on_node((node + 1) % nodes, drop_there, visits[node].with);
    for (int node = 0; node < nodes; node++) {
        on_node(node, make_there, visits[node].with);
        judge_made("freed by another", node, visits[node].with);
    }
    for (int node = 0; node < nodes; node++) on_node(node, drop_there, visits[node].with);
}

static int by_number(const void *one, const void *other)
{
    uintptr_t a = *(const uintptr_t *)one, b = *(const uintptr_t *)other;
    return (a > b) - (a < b);
}

enum { SENT = 20000, SENT_BYTES = 200 };
typedef struct {
    uintptr_t sent[SENT], again[SENT];
} Sent;

static void make_sent(int node, void *with)
{
    Sent *it = with;
    (void)node;
    for (int i = 0; i < SENT; i++)
        it->sent[i] = (uintptr_t)memset(malloc(SENT_BYTES), 4, SENT_BYTES);
}

static void free_sent(int node, void *with)
{
    Sent *it = with;
    (void)node;
    for (int i = 0; i < SENT; i++) free((void *)it->sent[i]);
}

/* Takes as many again, counts those that were sent, and frees all. */
static void take_again(int node, void *with)
{
    Sent *it = with;
    (void)node;
    for (int i = 0; i < SENT; i++)
        it->again[i] = (uintptr_t)memset(malloc(SENT_BYTES), 5, SENT_BYTES);
}

/* Objects of `again` in a piece of memory of `bytes` bytes that had one of `sent`. */
static long common(Sent *it, size_t bytes)
{
    static uintptr_t pieces[SENT];
    long count = 0;
    for (int i = 0; i < SENT; i++) pieces[i] = it->sent[i] / bytes;
    qsort(pieces, SENT, sizeof pieces[0], by_number);
    for (int i = 0; i < SENT; i++) {
        uintptr_t piece = it->again[i] / bytes;
        count += bsearch(&piece, pieces, SENT, sizeof piece, by_number) != NULL;
    }
    return count;
}

static void free_again(int node, void *with)
{
    Sent *it = with;
    (void)node;
    for (int i = 0; i < SENT; i++) free((void *)it->again[i]);
}

/* Objects of node 0, freed on the last node: but for an array of them they serve no request there.
 * Then node 0 takes most of as many from the same pageblocks. */
static void goes_home(void)
{
    static Sent memory;
    Sent *it = &memory;
    int other = nodes - 1;
    on_node(0, make_sent, it);
    on_node(other, free_sent, it);
    on_node(other, take_again, it);
    long away = common(it, 1);
    on_node(other, free_again, it);
    on_node(0, take_again, it);
    long home = common(it, 2 * MIB);
    on_node(0, free_again, it);
    int right = away <= ARRAY && home >= SENT / 2;
    printf("nodes: of %d objects of node 0, freed on node %d, %ld serve there; as many again on "
           "node 0 take %ld from the same pageblocks%s\n",
           SENT, other, away, home, right ? "" : "   WRONG");
    failures += !right;
}

static void read_pages(int node, void *with)
{
    quarry_mapping *mapping = with;
    static quarry_page *pages[PAGES];
    Found found = {0};
    for (int i = 0; i < PAGES; i++) {
        pages[i] = quarry_page_read(mapping, (unsigned long)i);
        CHECK(pages[i], "page %d", i);
    }
    for (int i = 0; i < PAGES; i++) look_at(&found, quarry_page_bytes(pages[i]));
    for (int i = 0; i < PAGES; i++) quarry_page_unpin(pages[i]);
    judge("cached pages", node, found, 0);
}

/* Each thread reads a file of its own: it also reads ahead. */
static void page_cache(void)
{
    for (int node = 0; node < nodes; node++) {
        FILE *file = tmpfile();
        CHECK(file && ftruncate(fileno(file), (off_t)(PAGES * PAGE)) == 0, "a file");
        quarry_mapping *mapping = quarry_mapping_open_fd(fileno(file), 0, 0);
        CHECK(mapping, "a mapping");
        on_node(node, read_pages, mapping);
        CHECK(quarry_mapping_close(mapping) == 0, "closed");
        fclose(file);
    }
}

enum { FOREIGN_BYTES = 24 << 20 };

static void take_foreign(int node, void *with)
{
    (void)node;
    *(char **)with = malloc(FOREIGN_BYTES);
}

static void touch_foreign(int node, void *with)
{
    (void)node;
    memset(*(char **)with, 6, FOREIGN_BYTES);
}

/* What node 0 takes, and the last node touches first. */
static void touched_by_another(void)
{
    char *block;
    Found found = {0};
    on_node(0, take_foreign, &block);
    on_node(nodes - 1, touch_foreign, &block);
    look(&found, block, FOREIGN_BYTES);
    judge("pages touched by another", 0, found, 0);
    free(block);
}

int main(int number, char **arguments)
{
    interleaves = number > 1 && !strcmp(arguments[1], "interleave");
    is_local = number > 1 && !strcmp(arguments[1], "local");
    while (nodes < MAX_NODES) {
        char name[80];
        snprintf(name, sizeof name, "/sys/devices/system/node/node%d", nodes);
        if (access(name, F_OK) != 0) break;
        nodes++;
    }
    CHECK(nodes > 1, "a machine with one node");
    go_to(0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!interleaves) goes_home();
    places();
    page_cache();
    if (is_local) touched_by_another();
    for (int node = 0; interleaves && node < nodes; node++) {
        int right = whole.on[node] * nodes > whole.all * 3 / 4;
        printf("nodes: in all, on node %d: %ld%s\n", node, whole.on[node], right ? "" : "   WRONG");
        failures += !right;
    }
    return failures > 0;
}
