// The heap of a program of a fleet after ten hours: does it hold more memory than after the first?
//
//   cc -O2 -o fleet fleet.c -lm          # ./fleet lab/experiments/data/fleet/profile_0.csv [MIB]
//   quarry compare --metric 'lower:(?<grows>[0-9.]+) last over first' -- ./fleet PROFILE
//
// Each line of the profile has a size, its births in a unit of time, and the mean number alive; all
// numbers alive are scaled until MIB (64) are in use. A size is born by its rate. All its objects
// die with the same probability in each moment, so their lives are exponential, with the mean
// alive / rate. The heap begins with all objects that are alive on average. An hour stands for a
// million births.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZES = 4096, HOURS = 10, BIRTHS = 1000000 };

struct size {
    size_t bytes, count, room;
    double until, alive;  // until: sum of the rates up to this size
    void **objects;
};

static struct size sizes[SIZES];
static size_t many;
static double in_use;
static unsigned long state = 88172645463325252;

static double draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) * 0x1p-53;
}

static double resident(void) {
    long all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) abort();
    fclose(file);
    return pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void birth(struct size *size) {
    if (size->count == size->room) {
        size->room = size->room * 2 + 16;
        size->objects = realloc(size->objects, size->room * sizeof *size->objects);
        if (!size->objects) abort();
    }
    void *object = malloc(size->bytes);
    if (!object) abort();
    size->objects[size->count++] = memset(object, 1, size->bytes);
    in_use += size->bytes;
}

static void death(struct size *size) {
    size_t which = draw() * size->count;
    free(size->objects[which]);
    size->objects[which] = size->objects[--size->count];
    in_use -= size->bytes;
}

static struct size *by_rate(void) {
    double at = draw() * sizes[many - 1].until;
    size_t low = 0, high = many - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sizes[middle].until <= at) low = middle + 1;
        else high = middle;
    }
    return &sizes[low];
}

static void read_profile(const char *path, double bytes) {
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        exit(1);
    }
    double size, rate, alive, sum = 0, all = 0;
    while (many < SIZES && fscanf(file, "%lf,%lf,%lf", &size, &rate, &alive) == 3) {
        sizes[many++] = (struct size){.bytes = size, .until = sum += rate, .alive = alive};
        all += size * alive;
    }
    fclose(file);
    for (size_t i = 0; i < many; i++) sizes[i].alive *= bytes / all;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: fleet PROFILE [MIB]\n");
        return 2;
    }
    read_profile(argv[1], (argc > 2 ? atof(argv[2]) : 64) * (1 << 20));
    if (!many) {
        fprintf(stderr, "%s has no lines of SIZE,RATE,ALIVE\n", argv[1]);
        return 1;
    }
    for (size_t filled = 0; filled < many;) {
        filled = 0;
        for (size_t i = 0; i < many; i++) {
            if (sizes[i].count + 1 <= sizes[i].alive) birth(&sizes[i]);
            else filled++;
        }
    }
    double first = 0, peak = 0, part = 0;
    for (int hour = 0; hour < HOURS; hour++) {
        part = 0;
        for (int born = 0, looks = 0; born < BIRTHS;) {
            // As likely as a birth where as many live as on average.
            struct size *size = by_rate();
            if (draw() * 3 < 1) {
                birth(size);
                if (size->alive < 1 && draw() > size->alive) death(size);  // before the next one
                born++;
                if (born % (BIRTHS / 20) == 0) {
                    double now = resident();
                    part += now / (in_use / (1 << 20));
                    peak = fmax(peak, now);
                    looks++;
                }
            } else if (size->count > 0 && draw() * 2 * size->alive < size->count) {
                death(size);
            }
        }
        part /= 20;
        if (hour == 0) first = part;
    }
    printf("%.1f MiB in use, peak %.1f MiB; resident over in use: first hour %.3f, last hour %.3f, "
           "%.3f last over first\n", in_use / (1 << 20), peak, first, part, part / first);
    return 0;
}
