// The heap of a program of a fleet after hours: does it hold more memory than after the first?
//
//   cc -O2 -pthread -o fleet fleet.c -lm # ./fleet lab/experiments/data/fleet/profile_0.csv [MIB]
//   quarry compare --metric 'lower:(?<grows>[0-9.]+) last over first' -- ./fleet PROFILE
//   ./fleet --shift HOURS SECONDS MIB PROFILE..
//
// Each line of a profile has a size, its births in a unit of time, and the mean number alive; all
// numbers alive are scaled until MIB (64) are in use. A size is born by its rate. All its objects
// die with the same probability in each moment, so their lives are exponential, with the mean
// alive / rate. The heap begins with all objects of the first profile that are alive on average. An
// hour stands for a million births. One run without --shift has ten hours.
//
// With --shift the load of a server changes: each tenth of an hour what is born follows the next
// of the profiles, and what was born before goes on to die at its own rate. The heap is in four
// parts. 1 to 4 threads, which are new in each look, work on a part each or on several, so most
// objects are freed by other threads than allocated them. An hour takes SECONDS (0: as fast as it
// can), and prints a line.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SIZES = 4096, PROFILES = 8, PARTS = 4, LOOKS = 20, BIRTHS = 1000000, PIECES = 50 };

struct size {
    size_t bytes;
    double until, alive;  // until: sum of the rates up to this size
};

struct profile {
    struct size sizes[SIZES];
    size_t many;
};

// All objects of one size and profile in one part.
struct objects {
    size_t count, room;
    void **all;
};

struct part {
    unsigned long state;
    double in_use;
    struct objects objects[PROFILES][SIZES];
};

static struct profile profiles[PROFILES];
static struct part parts[PARTS];
static int kinds, split = 1, threads = 1, now;
static double look_seconds;

static double draw(struct part *part) {
    part->state ^= part->state << 13;
    part->state ^= part->state >> 7;
    part->state ^= part->state << 17;
    return (part->state >> 11) * 0x1p-53;
}

static double resident(void) {
    long all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) abort();
    fclose(file);
    return pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static double in_use(void) {
    double sum = 0;
    for (int i = 0; i < split; i++) sum += parts[i].in_use;
    return sum / (1 << 20);
}

static void birth(struct part *part, int kind, size_t which) {
    struct objects *objects = &part->objects[kind][which];
    size_t bytes = profiles[kind].sizes[which].bytes;
    if (objects->count == objects->room) {
        objects->room = objects->room * 2 + 16;
        objects->all = realloc(objects->all, objects->room * sizeof *objects->all);
        if (!objects->all) abort();
    }
    void *object = malloc(bytes);
    if (!object) abort();
    objects->all[objects->count++] = memset(object, 1, bytes);
    part->in_use += bytes;
}

static void death(struct part *part, int kind, size_t which) {
    struct objects *objects = &part->objects[kind][which];
    size_t at = draw(part) * objects->count;
    free(objects->all[at]);
    objects->all[at] = objects->all[--objects->count];
    part->in_use -= profiles[kind].sizes[which].bytes;
}

static size_t by_rate(struct part *part, const struct profile *profile) {
    double at = draw(part) * profile->sizes[profile->many - 1].until;
    size_t low = 0, high = profile->many - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (profile->sizes[middle].until <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void read_profile(const char *path, double bytes) {
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        exit(1);
    }
    struct profile *profile = &profiles[kinds++];
    double size, rate, alive, sum = 0, all = 0;
    while (profile->many < SIZES && fscanf(file, "%lf,%lf,%lf", &size, &rate, &alive) == 3) {
        profile->sizes[profile->many++] =
            (struct size){.bytes = size, .until = sum += rate, .alive = alive};
        all += size * alive;
    }
    fclose(file);
    if (!profile->many) {
        fprintf(stderr, "%s has no lines of SIZE,RATE,ALIVE\n", path);
        exit(1);
    }
    for (size_t i = 0; i < profile->many; i++) profile->sizes[i].alive *= bytes / all;
}

static void fill(struct part *part) {
    const struct profile *profile = &profiles[0];
    for (size_t filled = 0; filled < profile->many;) {
        filled = 0;
        for (size_t i = 0; i < profile->many; i++) {
            if (part->objects[0][i].count + 1 <= profile->sizes[i].alive) birth(part, 0, i);
            else filled++;
        }
    }
}

// Returns whether an object was born.
static int moment(struct part *part) {
    int born = 0;
    for (int kind = 0; kind < kinds; kind++) {
        // As likely as a birth where as many live as on average.
        size_t which = by_rate(part, &profiles[kind]);
        double alive = profiles[kind].sizes[which].alive;
        size_t count = part->objects[kind][which].count;
        if (draw(part) * 3 < 1) {
            if (kind != now) continue;
            birth(part, kind, which);
            if (alive < 1 && draw(part) > alive) death(part, kind, which);  // before the next one
            born = 1;
        } else if (count > 0 && draw(part) * 2 * alive < count) {
            death(part, kind, which);
        }
    }
    return born;
}

static void rest_until(struct timespec start, double seconds) {
    double whole = floor(seconds);
    start.tv_nsec += (seconds - whole) * 1e9;
    start.tv_sec += whole + start.tv_nsec / 1000000000;
    start.tv_nsec %= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL);
}

// Works on part `number`, and on each that is a multiple of `threads` behind it.
static void *work(void *number) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int piece = 1; piece <= PIECES; piece++) {
        for (int i = (int)(long)number; i < split; i += threads) {
            for (int born = 0; born < BIRTHS / LOOKS / PIECES / split;) born += moment(&parts[i]);
        }
        if (look_seconds > 0) rest_until(start, look_seconds * piece / PIECES);
    }
    return NULL;
}

static void work_together(void) {
    pthread_t started[PARTS];
    if (split == 1) {
        work(0);
        return;
    }
    for (long i = 0; i < threads; i++) {
        if (pthread_create(&started[i], NULL, work, (void *)i)) abort();
    }
    for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
}

int main(int argc, char **argv) {
    int is_shifting = argc > 1 && !strcmp(argv[1], "--shift"), hours = 10;
    double mib = 64;
    if (argc < (is_shifting ? 6 : 2) || argc > (is_shifting ? 5 + PROFILES : 3)) {
        fprintf(stderr, "usage: fleet PROFILE [MIB]\n"
                        "       fleet --shift HOURS SECONDS MIB PROFILE.. (at most %d)\n",
                PROFILES);
        return 2;
    }
    if (is_shifting) {
        hours = atoi(argv[2]);
        look_seconds = atof(argv[3]) / LOOKS;
        mib = atof(argv[4]);
        split = PARTS;
        for (int i = 5; i < argc; i++) read_profile(argv[i], mib / split * (1 << 20));
    } else {
        if (argc > 2) mib = atof(argv[2]);
        read_profile(argv[1], mib * (1 << 20));
    }
    for (int i = 0; i < split; i++) {
        parts[i].state = 88172645463325252 + i;
        fill(&parts[i]);
    }
    double first = 0, over = 0;
    for (int hour = 0; hour < hours; hour++) {
        over = 0;
        for (int look = 0; look < LOOKS; look++) {
            now = look / 2 % kinds;
            threads = split == 1 ? 1 : 1 + look % PARTS;
            work_together();
            over += resident() / in_use() / LOOKS;
        }
        if (hour == 0) first = over;
        if (!is_shifting) continue;
        printf("hour %d: resident over in use %.3f, %.1f MiB in use\n", hour + 1, over, in_use());
        fflush(stdout);
    }
    // The system's own record: objects of some hundred MiB may live between two looks alone.
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double peak = usage.ru_maxrss / 1024.0;
    printf("%.1f MiB in use, peak %.1f MiB; resident over in use: first hour %.3f, last hour %.3f, "
           "%.3f last over first\n", in_use(), peak, first, over, over / first);
    return 0;
}
