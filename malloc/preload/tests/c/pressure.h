/* A file of the form in which the kernel tells for how long tasks have waited for memory. */
#ifndef QUARRY_TEST_PRESSURE_H
#define QUARRY_TEST_PRESSURE_H

#include "check.h"

#include <time.h>

/* Tasks have waited for `total` microseconds, half of them all at once. */
static void write_total(const char *file, unsigned long total)
{
    char name[512];
    snprintf(name, sizeof name, "%s.new", file);
    FILE *out = fopen(name, "w");
    CHECK(out != NULL, "%s", name);
    fprintf(out, "some avg10=0.00 avg60=0.00 avg300=0.00 total=%lu\n", total);
    fprintf(out, "full avg10=0.00 avg60=0.00 avg300=0.00 total=%lu\n", total / 2);
    CHECK(fclose(out) == 0 && rename(name, file) == 0, "%s", file);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

#endif
