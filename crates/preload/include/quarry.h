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

#ifdef __cplusplus
}
#endif

#endif
