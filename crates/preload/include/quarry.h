/* Quarry's own functions, beside the standard malloc interface: the heap as a whole, caches of
 * objects, pages. Made from the library's sources (crates/preload/tests/header.rs); a change here
 * is lost. */

#ifndef QUARRY_H
#define QUARRY_H

#include <stddef.h>

/* A cache of objects of one size. It is a number in disguise, never an address. No thread destroys
 * it while another one uses it. */
typedef struct quarry_cache quarry_cache;

/* Objects of a cache that are held ready. */
typedef struct quarry_reserve quarry_reserve;

/*
 Of quarry_cache_create: no object shares cache lines with more others than it must
 (SLAB_HWCACHE_ALIGN).
 */
#define QUARRY_HWCACHE_ALIGN 1

/*
 Of quarry_cache_create: the cache shares its slabs with no other one, whatever the slab policy
 (SLAB_NO_MERGE).
 */
#define QUARRY_NO_MERGE 2

/*
 Of requests for objects and pages: all bytes are 0 (__GFP_ZERO). Not for objects of a cache with
 a constructor.
 */
#define QUARRY_ZERO 1

/*
 Of requests for pages: the caller cannot wait (GFP_ATOMIC). The request may use the reserve,
 but nothing is reclaimed for it, and the heap does not grow.
 */
#define QUARRY_ATOMIC 2

#ifdef __cplusplus
extern "C" {
#endif

/*
 The version of the loaded library, such as "0.1.0". Never NULL.
 */
const char *quarry_version(void);

/*
 Prints slabinfo, buddyinfo and lock counters to a file descriptor.
 */
void quarry_stats_print(int fd);

/*
 Sets the most bytes that the heap may hold, rounded down to 4 KiB, in place of QUARRY_LIMIT;
 SIZE_MAX lifts the limit. What is in use already stays in use, and what the control group allows
 is never exceeded. At the limit requests fail with ENOMEM after one reclaim. Returns 0, or -1
 with ENOTSUP where QUARRY_DISABLE=1.
 */
int quarry_set_limit(size_t bytes);

/*
 Most bytes that the heap may hold now: the lowest of that limit and of what the control group
 was last seen to allow. SIZE_MAX where there is none.
 */
size_t quarry_limit(void);

/*
 Checks every invariant of the heap: returns 0 where all hold; else prints the broken one as a
 line on standard error and returns -1. Takes milliseconds per gigabyte. Nobody else may use the
 heap meanwhile: no other thread of the program, and no thread of Quarry's own, which
 QUARRY_BACKGROUND=0 forbids.
 */
int quarry_validate(void);

/*
 Creates a cache of objects of `size` bytes, at multiples of `align`: a power of two, or 0, which
 stands for 16. The first 24 bytes of `name` are its name in statistics.

 A constructor, if any, gets each object once, when the memory for it is taken, on whatever
 thread needs it; it may call malloc and free, but nothing of this file, and must not wait for
 another thread. Users free objects in the state in which they got them.

 Returns NULL with EINVAL (size 0 or above 4 MiB, alignment, flags or name that do not exist),
 ENOSPC (a process can have 55 caches), ENOMEM, or ENOTSUP where QUARRY_DISABLE=1.

 The name ends with a NUL.
 */
quarry_cache *quarry_cache_create(const char *name,
                                  size_t size,
                                  size_t align,
                                  void (*constructor)(void *object),
                                  unsigned int flags);

/*
 Takes an object. Returns NULL with ENOMEM, or with EINVAL where there is no such cache or flag.
 */
void *quarry_cache_alloc(quarry_cache *cache, unsigned int flags);

/*
 Gives an object back; NULL is ignored. Prints a line and aborts where the cache has no object
 there, or where the object is seen not to be in use.

 Nobody uses the object any more.
 */
void quarry_cache_free(quarry_cache *cache, void *object);

/*
 Takes up to `count` objects into the front of `objects`; returns how many. Where there are
 fewer, errno is ENOMEM, or EINVAL where there is no such cache or flag.

 `objects` has room for `count` pointers.
 */
size_t quarry_cache_alloc_bulk(quarry_cache *cache,
                               unsigned int flags,
                               size_t count,
                               void **objects);

/*
 Gives `count` objects back, each of them another one. Aborts as quarry_cache_free.

 `objects` are `count` pointers, and nobody uses the objects any more.
 */
void quarry_cache_free_bulk(quarry_cache *cache, size_t count, void *const *objects);

/*
 Takes `count` objects ahead, at most 4,000, so that requests cannot fail later. Returns NULL
 with ENOMEM where there is no memory for all of them, or with EINVAL where they are too many, or
 where there is no such cache.
 */
quarry_reserve *quarry_cache_prefill(quarry_cache *cache, size_t count);

/*
 Takes an object out of a reserve, for quarry_cache_free. Returns NULL with ENOENT where all have
 been taken. Aborts where there is no such reserve.

 No other thread uses the reserve meanwhile.
 */
void *quarry_reserve_alloc(quarry_reserve *reserve);

/*
 Gives back what a reserve has left, and the reserve; NULL is ignored. Aborts where there is no
 such reserve.

 Nobody uses the reserve any more.
 */
void quarry_reserve_free(quarry_reserve *reserve);

/*
 Gives back the memory that a cache holds beyond what is in use. Returns 0, or -1 with EINVAL
 where there is no such cache.
 */
int quarry_cache_shrink(quarry_cache *cache);

/*
 Destroys a cache that nobody uses any more. Returns 0; or the number of objects that are still
 in use, which a line on standard error names, and then the cache stays; or -1 with EINVAL where
 there is no such cache, as where it was destroyed before.

 No other thread uses the cache meanwhile.
 */
long quarry_cache_destroy(quarry_cache *cache);

/*
 Takes a block of 2^order pages of 4 KiB (order 0 to 9), at a multiple of its size. Returns NULL
 with ENOMEM, with EINVAL where there is no such order or flag, or with ENOTSUP where
 QUARRY_DISABLE=1.
 */
void *quarry_pages_alloc(unsigned int order, unsigned int flags);

/*
 Gives a block of pages back; NULL is ignored. Prints a line and aborts where no block of this
 order starts there.

 Nobody uses the pages any more.
 */
void quarry_pages_free(void *pages, unsigned int order);

#ifdef __cplusplus
}
#endif

#endif  /* QUARRY_H */
