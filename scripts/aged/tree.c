// Loads a search tree and then queries it: how much longer do the queries take if the heap is aged?
//
//   cc -O2 -o tree tree.c
//   quarry compare --aged --metric 'lower:(?<query>[0-9.]+) ms of queries' -- ./tree
//
// Nodes and their values are blocks of their own, as in an index of a database. A load has blocks
// that live for a short time as well: what a parser needs for each record. The time of the queries
// contains no call of malloc, so it shows only where the load has put the nodes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NODES = 100000, QUERIES = 200000 };

struct node {
    struct node *left, *right;
    unsigned long key;
    char *value;
};

static unsigned long state = 1;

static unsigned long draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void *allocated(size_t size) {
    void *block = malloc(size);
    if (!block) abort();
    return memset(block, 1, size);
}

static void insert(struct node **place, unsigned long key) {
    char *record = allocated(100 + draw() % 400);
    while (*place) place = key < (*place)->key ? &(*place)->left : &(*place)->right;
    struct node *node = allocated(sizeof *node);
    *node = (struct node){NULL, NULL, key, allocated(16 + draw() % 48)};
    *place = node;
    free(record);
}

int main(void) {
    struct node *tree = NULL;
    for (int i = 0; i < NODES; i++) insert(&tree, draw());
    double start = milliseconds();
    unsigned long sum = 0;
    for (int i = 0; i < QUERIES; i++) {
        unsigned long key = draw();
        for (struct node *node = tree; node; node = key < node->key ? node->left : node->right)
            sum += node->key + node->value[0];
    }
    // The sum keeps the compiler from leaving the queries out.
    printf("%.1f ms of queries, sum %lu\n", milliseconds() - start, sum);
    return 0;
}
