/* Quarry's own functions, beside the standard malloc interface. */
#ifndef QUARRY_H
#define QUARRY_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the loaded library, such as "0.1.0". Never NULL. */
const char *quarry_version(void);

/* Prints slabinfo, buddyinfo and lock counters to a file descriptor. */
void quarry_stats_print(int fd);

/*
 * Checks every invariant of the heap: 0 where all hold; else prints the broken one as a line on
 * standard error and returns -1, or ends the process. Takes milliseconds per gigabyte. Nobody else
 * may use the heap meanwhile: no other thread of the program, and no thread of Quarry's own, which
 * QUARRY_BACKGROUND=0 forbids.
 */
int quarry_validate(void);

#ifdef __cplusplus
}
#endif

#endif
