// Sizes that move on: how much memory does a heap hold whose program asks for other sizes later?
//
//   cc -O2 -o size_drift size_drift.c    # ./size_drift [MICROSECONDS of rest in each epoch]
//   quarry compare --metric 'lower:(?<end>[0-9.]+) MiB at the end' -- ./size_drift
//
// In each of 30 epochs blocks are allocated until 32 MiB are in use. Their sizes are an eighth
// larger than those of the epoch before: 64 to 80 bytes at first, 1,949 to 2,436 in the end. At the
// end of the epoch its blocks are freed in random order, all but one in 128. So no later request
// has the size of the holes, and survivors of all epochs lie between them. After the last epoch the
// program sleeps for two seconds. The array of blocks, which has 8 MiB at most, does not count in
// "at the end".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EPOCHS = 30, SURVIVES = 128, MOST = 1 << 19 };
static const size_t IN_USE = 32 << 20;

struct block {
    unsigned char *place;
    size_t size;
};

static struct block blocks[MOST];
static size_t in_use;
static unsigned long state = 1;

static unsigned long draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static double resident(void) {
    long all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) abort();
    fclose(file);
    return pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void drop(struct block block) {
    if (block.place[0] != block.place[block.size - 1]) abort();
    in_use -= block.size;
    free(block.place);
}

int main(int arguments, char **values) {
    int count = 0, most = 0;
    double size = 64;
    for (int epoch = 0; epoch < EPOCHS; epoch++, size *= 1.125) {
        int first = count;
        while (in_use < IN_USE && count < MOST) {
            struct block one = {NULL, size + draw() % (size_t)(size / 4 + 1)};
            if (!(one.place = malloc(one.size))) abort();
            memset(one.place, epoch, one.size);
            in_use += one.size;
            blocks[count++] = one;
        }
        if (count > most) most = count;
        if (arguments > 1) usleep(atoi(values[1]));
        for (int left = first + (count - first) / SURVIVES; count > left; count--) {
            int at = first + draw() % (count - first);
            drop(blocks[at]);
            blocks[at] = blocks[count - 1];
        }
    }
    sleep(2);
    printf("%.1f MiB at the end, %.1f in use\n",
           resident() - most * sizeof *blocks / (double)(1 << 20), in_use / (double)(1 << 20));
    return 0;
}
