/* Quarry's own functions, beside the standard malloc interface. */
#ifndef QUARRY_H
#define QUARRY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the loaded library, such as "0.1.0". Never NULL. */
const char *quarry_version(void);

/* Prints slabinfo, buddyinfo and lock counters to a file descriptor. */
void quarry_stats_print(int fd);

/*
 * Sets the most bytes that the heap may hold, rounded down to 4 KiB, in place of QUARRY_LIMIT;
 * SIZE_MAX lifts the limit. What is in use already stays in use, and what the control group allows
 * is never exceeded. At the limit requests fail with ENOMEM after one reclaim. 0, or -1 with
 * ENOTSUP where QUARRY_DISABLE=1.
 */
int quarry_set_limit(size_t bytes);

/*
 * Most bytes that the heap may hold now: the lowest of that limit and of what the control group was
 * last seen to allow. SIZE_MAX where there is none.
 */
size_t quarry_limit(void);

/*
 * Checks every invariant of the heap: 0 where all hold; else prints the broken one as a line on
 * standard error and returns -1. Takes milliseconds per gigabyte. Nobody else
 * may use the heap meanwhile: no other thread of the program, and no thread of Quarry's own, which
 * QUARRY_BACKGROUND=0 forbids.
 */
int quarry_validate(void);

#ifdef __cplusplus
}
#endif

#endif
