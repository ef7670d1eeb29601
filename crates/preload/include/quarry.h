/* Quarry's own functions, beside the standard malloc interface: the heap as a whole, caches of
 * objects, pages, the budget. Made from the library's sources (crates/preload/tests/header.rs); a change here
 * is lost. */

#ifndef QUARRY_H
#define QUARRY_H

#include <stddef.h>

/* A cache of objects of one size. It is a number in disguise, never an address. No thread destroys
 * it while another one uses it. */
typedef struct quarry_cache quarry_cache;

/* Objects of a cache that are held ready. */
typedef struct quarry_reserve quarry_reserve;

/* What a program has registered with the budget. */
typedef struct quarry_registration quarry_registration;

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



/*
 Levels of pressure: the high mark is reached.
 */
#define QUARRY_PRESSURE_NONE 0

/*
 Below the low mark; memory is being reclaimed.
 */
#define QUARRY_PRESSURE_LOW 1

/*
 Most of what is looked at is in use.
 */
#define QUARRY_PRESSURE_MEDIUM 2

/*
 Nearly all of it is, or the high mark cannot be reached.
 */
#define QUARRY_PRESSURE_CRITICAL 3

/*
 The figures of the budget, in bytes, as of one moment.
 */
typedef struct {
  /*
   The limit; SIZE_MAX where there is none.
   */
  size_t limit;
  /*
   The marks below it: the reserve, where reclaim begins, and where it ends.
   */
  size_t min;
  /*
   See min.
   */
  size_t low;
  /*
   See min.
   */
  size_t high;
  /*
   In use.
   */
  size_t used;
  /*
   What requests could have, an estimate.
   */
  size_t available;
  /*
   Pages of the page cache, and of these dirty ones and those that cannot be reclaimed.
   */
  size_t file;
  /*
   See file.
   */
  size_t dirty;
  /*
   See file.
   */
  size_t pinned;
  /*
   Objects, slabs and mappings that are held for later requests.
   */
  size_t slab_reclaimable;
  /*
   Slabs of objects in use.
   */
  size_t slab_unreclaimable;
  /*
   What shrinkers said they could free.
   */
  size_t shrinkable;
  /*
   Descriptors of Quarry, beside the limit.
   */
  size_t metadata;
  /*
   Memory of the process that the budget does not know of.
   */
  size_t unaccounted;
  /*
   Nanoseconds that 99.9 % of the reclaims inside of requests took at most.
   */
  size_t direct_p999_ns;
  /*
   One of QUARRY_PRESSURE_.
   */
  int pressure;
} quarry_budget;

/*
 A cache of the program that frees objects when memory is short. Both functions run on a thread
 of Quarry's own, with 192 KiB of stack and every signal blocked, or inside of quarry_reclaim and
 quarry_limit_wait; never inside of malloc or free. They may call malloc and free.
 */
typedef struct {
  /*
   Returns how many objects could be freed.
   */
  size_t (*count)(void *context);
  /*
   Looks at so many objects, the oldest first, and frees those that can be freed; returns how
   many that were. Where it has looked at fewer, it says so in scanned.
   */
  size_t (*scan)(void *context, size_t objects, size_t *scanned);
  /*
   The cost of making an object again, where 2 is that of reading a page; 0 for next to
   nothing.
   */
  unsigned int seeks;
  /*
   Objects of one scan; 0 stands for 128.
   */
  unsigned int batch;
  /*
   Bytes of an object; 0 where that is not known.
   */
  size_t object_bytes;
} quarry_shrinker;

/*
 The limits of a group, in bytes: SIZE_MAX for none.
 */
typedef struct {
  /*
   As long as the group has no more, nothing of it is reclaimed for others.
   */
  size_t min;
  /*
   Beyond it memory of the group is reclaimed in the background.
   */
  size_t high;
  /*
   At it requests of the group fail, after one reclaim of the group.
   */
  size_t max;
  /*
   Most bytes of pages that may be pinned at a time.
   */
  size_t pinned_max;
} quarry_group_limits;

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

/*
 Reads the figures of the budget into the first `bytes` bytes of `out`, where a program is
 compiled with fewer figures than the library has. Returns 0, or -1 with ENOTSUP where
 QUARRY_DISABLE=1.

 `out` has room for `bytes` bytes.
 */
int quarry_budget_read(quarry_budget *out, size_t bytes);

/*
 Chooses the marks below the limit: the bytes that are kept for reclaim itself (SIZE_MAX: by the
 square root of the limit), and the gaps between the marks in 10,000ths of the limit, 1 to 3,000.
 Returns 0, or -1 with EINVAL or ENOTSUP.
 */
int quarry_set_marks(size_t min, unsigned int scale);

/*
 Waits until no more is in use than the limit of quarry_set_limit allows, for so many
 milliseconds at most. Returns 0, or -1 with ETIMEDOUT or ENOTSUP. The caller holds nothing that
 a shrinker needs.
 */
int quarry_limit_wait(long milliseconds);

/*
 Reclaims until so many bytes fewer are in use, or nothing more can be freed; returns how many
 fewer are. Calls shrinkers: the caller holds nothing that they need.
 */
size_t quarry_reclaim(size_t bytes);

/*
 Registers a shrinker, whose functions get `context`. Returns NULL with EINVAL (no functions),
 ENOSPC (64 are registered), ENOMEM, or ENOTSUP where QUARRY_DISABLE=1.

 Any thread may call the functions with the context, until quarry_unregister has returned.
 */
quarry_registration *quarry_shrinker_register(const quarry_shrinker *shrinker, void *context);

/*
 Has a function called with one of QUARRY_PRESSURE_ when that changes, where shrinkers are called
 too. Returns NULL with EINVAL (no function), ENOSPC (16 are registered), ENOMEM, or ENOTSUP where
 QUARRY_DISABLE=1.

 Any thread may call the function with the context, until quarry_unregister has returned.
 */
quarry_registration *quarry_pressure_register(void (*tell)(void *context, int level),
                                              void *context);

/*
 Removes what was registered, and waits for a call of it that is under way; NULL is ignored. The
 caller holds nothing that the call needs, and is not in it.

 It was registered, and nobody uses the registration any more.
 */
void quarry_unregister(quarry_registration *registration);

/*
 Makes a group: a part of the program with limits of its own. Returns its number, 1 to 255, or -1
 with EINVAL, ENOSPC or ENOTSUP.

 `limits` is NULL or points to limits.
 */
int quarry_group_create(const quarry_group_limits *limits);

/*
 Changes the limits of a group. Returns 0, or -1 with EINVAL.

 As quarry_group_create.
 */
int quarry_group_limit(int group, const quarry_group_limits *limits);

/*
 Bytes that are charged to a group; 0 with EINVAL where there is none.
 */
size_t quarry_group_used(int group);

/*
 Removes a group. Returns 0, or -1 with EBUSY (file mappings belong to it) or EINVAL.
 */
int quarry_group_destroy(int group);

#ifdef __cplusplus
}
#endif

#endif  /* QUARRY_H */
