/*
 * burst SECONDS: every 1.5 s it needs 120 MiB, in objects of 4,000 bytes, for a moment. Prints
 * what is resident between two bursts.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 31457, BYTES = 4000 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double resident_mib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(file);
    return pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void *wait_for_ever(void *unused)
{
    pause();
    return unused;
}

int main(int count, char **arguments)
{
    static void *objects[OBJECTS];
    if (count != 2)
        return 2;
    /* A process with a second thread has a background thread. */
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        return 1;
    double end = now() + atof(arguments[1]), sum = 0;
    int looks = 0;
    while (now() < end) {
        double begin = now();
        for (int i = 0; i < OBJECTS; i++) {
            objects[i] = malloc(BYTES);
            memset(objects[i], 1, BYTES);
        }
        for (int i = 0; i < OBJECTS; i++)
            free(objects[i]);
        for (; now() < begin + 1.5; looks++) {
            usleep(50000);
            sum += resident_mib();
        }
    }
    printf("%.0f MiB resident between bursts\n", sum / looks);
    return 0;
}
