/* Quarry's own functions, beside the standard malloc interface: the heap as a whole, caches of
 * objects, pages, the page cache, the budget, the heap profile. Link with -lquarry-full; those of
 * the heap and its profile are in libquarry.so as well. Made from the library's sources
 * (malloc/preload/tests/header.rs); a change here is lost. */

#ifndef QUARRY_H
#define QUARRY_H

#include <stddef.h>

/* A cache of objects of one size. It is a number in disguise, never an address. No thread destroys
 * it while another one uses it. */
typedef struct quarry_cache quarry_cache;

/* A heap of the program. It is a number in disguise, never an address. */
typedef struct quarry_heap quarry_heap;

/* Objects of a cache that are held ready. */
typedef struct quarry_reserve quarry_reserve;

/* The cached pages of one file or database. */
typedef struct quarry_mapping quarry_mapping;

/* A cached page that the caller has pinned. It is a number in disguise, never an address. */
typedef struct quarry_page quarry_page;

/* What a program has registered with the budget. */
typedef struct quarry_registration quarry_registration;

/* Returned by a shrinker's functions: the count is not known now, or no object can be freed now. */
#define QUARRY_SHRINK_STOP ((size_t)-1)

/*
 Of quarry_cache_create: objects share as few cache lines as possible (SLAB_HWCACHE_ALIGN).
 */
#define QUARRY_HWCACHE_ALIGN 1

/*
 Of quarry_cache_create: the cache shares its slabs with no other cache, under any slab policy
 (SLAB_NO_MERGE).
 */
#define QUARRY_NO_MERGE 2

/*
 Of requests for objects and pages: all bytes are 0 (__GFP_ZERO). Not for objects of a cache with
 a constructor.
 */
#define QUARRY_ZERO 1

/*
 Of requests for pages: the caller cannot wait (GFP_ATOMIC). The request may use the reserve, but
 reclaims nothing, and the heap does not grow.
 */
#define QUARRY_ATOMIC 2

/*
 Of quarry_mapping_open_fd: the descriptor is closed with the mapping.
 */
#define QUARRY_OWN_FD 1

/*
 Of quarry_page_lock and quarry_page_unlock: for writing; else for reading.
 */
#define QUARRY_EXCLUSIVE 1

/*
 Of quarry_page_lock: fails with EBUSY instead of waiting.
 */
#define QUARRY_TRY 2

/*
 Of quarry_mapping_invalidate: drops dirty pages too, whose contents are lost.
 */
#define QUARRY_DIRTY_TOO 1

/*
 Level of pressure: the high mark is reached.
 */
#define QUARRY_PRESSURE_NONE 0

/*
 Level of pressure: below the low mark; memory is being reclaimed.
 */
#define QUARRY_PRESSURE_LOW 1

/*
 Level of pressure: most pages and objects that reclaim examines are in use.
 */
#define QUARRY_PRESSURE_MEDIUM 2

/*
 Level of pressure: nearly all that reclaim examines is in use, or the high mark is out of reach.
 */
#define QUARRY_PRESSURE_CRITICAL 3

/*
 The counts of a heap, in bytes unless a field says otherwise.
 */
typedef struct {
  /*
   Objects in use, each rounded up to the size of its class.
   */
  size_t used;
  /*
   The pages that the heap has.
   */
  size_t charged;
  /*
   The maximum of charged; SIZE_MAX without a limit.
   */
  size_t limit;
  /*
   Number of objects that were handed out.
   */
  size_t allocs;
  /*
   Number of objects that were given back, or went with a reset.
   */
  size_t frees;
  /*
   Number of requests that the limit refused.
   */
  size_t refused;
} quarry_heap_stats;

/*
 How full the slab of an object is, and how full all slabs for objects of its size are. Free
 objects that CPUs keep for later requests count as in use.
 */
typedef struct {
  /*
   Objects in use in the slab, including the object itself.
   */
  unsigned int live;
  /*
   Number of objects that the slab has.
   */
  unsigned int total;
  /*
   1 if the object is worth moving: its slab is one of the emptier slabs, and
   quarry_malloc_dense would take from another slab. A program that moves such objects ends
   with few slabs.
   */
  unsigned int is_sparse;
  /*
   1 if no other object on one of its pages is in use, so that freeing it frees that page.
   */
  unsigned int frees_page;
  /*
   Slabs for objects of this size.
   */
  size_t slabs;
  /*
   Slabs for objects of this size with both objects in use and free objects.
   */
  size_t partial_slabs;
  /*
   Objects in use in the partial slabs.
   */
  size_t partial_live;
} quarry_occupancy_t;

/*
 The backing of a mapping's pages. Several threads call the functions at once, one of them a
 thread of Quarry's own with 256 KiB of stack. The functions must not use the mapping. read and
 write return the number of bytes, or a negative errno; if bytes are missing, they are called
 again.
 */
typedef struct {
  /*
   sizeof(quarry_backing).
   */
  size_t struct_size;
  /*
   The first argument of all functions.
   */
  void *context;
  /*
   Returns the present size in bytes.
   */
  unsigned long (*size)(void *context);
  /*
   Reads bytes at an offset.
   */
  long (*read)(void *context, unsigned long offset, void *bytes, size_t count);
  /*
   Writes bytes at an offset; NULL if pages are never written.
   */
  long (*write)(void *context, unsigned long offset, const void *bytes, size_t count);
  /*
   Returns whether a page with this mark may be written; waits is 1 if a caller waits until the
   page is written. NULL if all pages may be written.
   */
  int (*may_write)(void *context, unsigned long mark, int waits);
  /*
   Waits until all writes are durable; returns 0 or a negative errno. NULL if they always are.
   */
  int (*sync)(void *context);
} quarry_backing;

/*
 The figures of the budget, in bytes, at one moment.
 */
typedef struct {
  /*
   The limit; SIZE_MAX without a limit.
   */
  size_t limit;
  /*
   The min mark, in free bytes below the limit: reserved for reclaim itself.
   */
  size_t min;
  /*
   The low mark, in free bytes below the limit: there reclaim starts.
   */
  size_t low;
  /*
   The high mark, in free bytes below the limit: there reclaim ends.
   */
  size_t high;
  /*
   Bytes in use.
   */
  size_t used;
  /*
   Estimate of the bytes that requests could still get.
   */
  size_t available;
  /*
   Bytes in pages of the page cache, including dirty and pinned pages.
   */
  size_t file;
  /*
   Bytes in dirty pages of the page cache.
   */
  size_t dirty;
  /*
   Bytes in pages of the page cache that reclaim cannot take.
   */
  size_t pinned;
  /*
   Objects, slabs and mappings that Quarry keeps for later requests.
   */
  size_t slab_reclaimable;
  /*
   Slabs of objects in use.
   */
  size_t slab_unreclaimable;
  /*
   Bytes that shrinkers have reported as freeable.
   */
  size_t shrinkable;
  /*
   Descriptors of Quarry, which the limit does not count.
   */
  size_t metadata;
  /*
   Memory of the process outside of the budget.
   */
  size_t unaccounted;
  /*
   The time within which 99.9 % of the reclaims inside requests have ended, in nanoseconds.
   */
  size_t direct_p999_ns;
  /*
   One of QUARRY_PRESSURE_.
   */
  int pressure;
} quarry_budget;

/*
 A cache of the program that frees objects when memory is short. Both functions run on a thread
 of Quarry's own, with 192 KiB of stack and every signal blocked, or inside quarry_reclaim and
 quarry_limit_wait; never inside malloc or free. They may call malloc and free.
 */
typedef struct {
  /*
   Returns the number of objects that could be freed.
   */
  size_t (*count)(void *context);
  /*
   Examines this many objects, the oldest first, and frees those that can be freed; returns the
   number of freed objects. If it has examined fewer, it sets scanned to their number.
   */
  size_t (*scan)(void *context, size_t objects, size_t *scanned);
  /*
   The cost of making an object again, if reading a page costs 2; 0 for almost nothing.
   */
  unsigned int seeks;
  /*
   Objects of one scan; 0 stands for 128.
   */
  unsigned int batch;
  /*
   Bytes of an object; 0 if unknown.
   */
  size_t object_bytes;
} quarry_shrinker;

/*
 The limits of a group, in bytes; SIZE_MAX for no limit.
 */
typedef struct {
  /*
   Up to this size, the group keeps its cached pages when other parts of the program need
   memory.
   */
  size_t min;
  /*
   Above this size, the background thread reclaims memory of the group.
   */
  size_t high;
  /*
   At this size, requests of the group fail after one reclaim of the group.
   */
  size_t max;
  /*
   Maximum number of bytes of pages that may be pinned at the same time.
   */
  size_t pinned_max;
  /*
   Up to this size, the group keeps its cached pages unless other groups have too few.
   */
  size_t low;
} quarry_group_limits;

/*
 The use of a group, in bytes unless a field says otherwise:
 used = cached + malloc_pages + heaps + the used of the groups that are parts of it.
 */
typedef struct {
  /*
   All that is charged to the group, with its parts.
   */
  size_t used;
  /*
   Its cached pages.
   */
  size_t cached;
  /*
   Pages of what malloc has handed out to threads inside it.
   */
  size_t malloc_pages;
  /*
   Pages of the heaps in it, and of what groups that were parts of it have left.
   */
  size_t heaps;
  /*
   Objects in use and cached pages, without those of its parts.
   */
  size_t in_use;
  /*
   Slabs without an object in use, without those of its parts.
   */
  size_t parked;
  /*
   Of malloc_pages, objects in use.
   */
  size_t malloc_in_use;
  /*
   Pinned pages, which are counted only if the group limits them.
   */
  size_t pinned;
  /*
   Number of requests that failed at the limit.
   */
  size_t refusals;
  /*
   Number of the group that it is a part of; 0: of none.
   */
  size_t parent;
} quarry_group_stats;

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
 Sets the maximum number of bytes that the heap may hold, rounded down to 4 KiB, instead of
 QUARRY_LIMIT; SIZE_MAX lifts the limit. Memory in use stays in use, and the heap never exceeds
 what the control group allows. At the limit requests fail with ENOMEM after one reclaim. Returns
 0, or -1 with EINVAL below 4 KiB, ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.
 */
int quarry_set_limit(size_t bytes);

/*
 Maximum number of bytes that the heap may hold now: the lower of the limit of quarry_set_limit
 (or QUARRY_LIMIT) and the limit of the control group when it was last read. SIZE_MAX without a
 limit.
 */
size_t quarry_limit(void);

/*
 Creates a heap: memory that goes at once, and whose amount is bounded. Any thread may use it.
 Its objects share no page with those of another heap. free, realloc, malloc_usable_size and
 their relatives serve them like all other memory, on any thread; realloc leaves an object in its
 heap. The pages of the heap take at most limit bytes, rounded down to 4 KiB, at least one page;
 0 or SIZE_MAX: no limit. The first 32 bytes of the name are kept.

 A heap without objects takes less than 1 KiB, and 4 KiB for each size of objects in use.

 Every use of a heap that was destroyed prints a line with its name and aborts, and so does a
 free of its memory until that memory serves again.

 Returns NULL with EINVAL (a name that is NULL or not UTF-8), ENOMEM, or ENOTSUP if
 QUARRY_DISABLE=1. The other functions return NULL, 0 or -1 with EINVAL if the heap is NULL.

 The name ends with a NUL.
 */
quarry_heap *quarry_heap_create(const char *name, size_t limit);

/*
 Same as quarry_heap_create, in a group, which is charged for the pages of the heap, too; 0: in
 none. Fails with EINVAL if there is no such group.

 The name ends with a NUL.
 */
quarry_heap *quarry_heap_create_in(int group, const char *name, size_t limit);

/*
 malloc in a heap. Returns NULL with ENOMEM if the limit of the heap is reached, also after
 quarry_heap_on_pressure's function was called, or if there is no memory.
 */
void *quarry_heap_malloc(quarry_heap *heap, size_t size);

/*
 calloc in a heap. Fails like quarry_heap_malloc, and if the product overflows.
 */
void *quarry_heap_calloc(quarry_heap *heap, size_t count, size_t size);

/*
 aligned_alloc in a heap. Fails like quarry_heap_malloc, and with EINVAL for an alignment that is
 no power of two.
 */
void *quarry_heap_aligned_alloc(quarry_heap *heap, size_t align, size_t size);

/*
 realloc into a heap: an object of another heap, or of malloc, moves. With NULL this is
 quarry_heap_malloc, with a size of 0 it is free. If it fails, like quarry_heap_malloc, the
 object is unchanged.

 `pointer` is NULL or an object in use, which is not used any more if this succeeds.
 */
void *quarry_heap_realloc(quarry_heap *heap, void *pointer, size_t size);

/*
 Frees all objects of a heap at once, which keeps its pages for further objects.

 No code uses the objects any more.
 */
void quarry_heap_reset(quarry_heap *heap);

/*
 Frees all objects of a heap at once, and ends it; NULL is ignored.

 No code uses the objects any more.
 */
void quarry_heap_destroy(quarry_heap *heap);

/*
 Bytes of a heap's objects in use.
 */
size_t quarry_heap_used(quarry_heap *heap);

/*
 Writes the counts of a heap to the first `bytes` bytes of `out`: programs with an older quarry.h
 have fewer counts. Returns 0, or -1 with EINVAL.

 `out` has room for `bytes` bytes.
 */
int quarry_heap_stat(quarry_heap *heap, quarry_heap_stats *out, size_t bytes);

/*
 Changes the limit of a heap, as of quarry_heap_create; its objects stay. Returns 0, or -1 with
 EINVAL.
 */
int quarry_heap_set_limit(quarry_heap *heap, size_t limit);

/*
 Sets the function that is called when a request for this many bytes has reached the limit of a
 heap, on the thread of the request, which then tries once more; NULL: none. The function may
 call every function, and free or raise the limit. Requests of its own to the heap fail at the
 limit. Returns 0, or -1 with EINVAL.

 Any thread may call the function with the context while the heap lives.
 */
int quarry_heap_on_pressure(quarry_heap *heap,
                            void (*tell)(void *context, size_t bytes),
                            void *context);

/*
 Checks every invariant of the heap: returns 0 if all hold; otherwise prints the broken invariant
 as a line on standard error and returns -1. Takes milliseconds per gigabyte. No other thread may
 use the heap during the call: neither a thread of the program, nor Quarry's background thread,
 which QUARRY_BACKGROUND=0 switches off.
 */
int quarry_validate(void);

/*
 Reports for each of `count` pointers how full its slab is. All figures are 0 for a pointer that
 is no object in use in a slab: NULL, a request above 32 KiB, memory that is not Quarry's or was
 freed into its slab. For all pointers they are 0 under a slab policy without such figures
 (`slub`, `slab`, `slqb`), while each free is checked (QUARRY_DEBUG, QUARRY_HARDEN), and if
 QUARRY_DISABLE=1. O(1) each.

 `pointers` has `count` pointers, and `out` has room for `count` answers.
 */
void quarry_occupancy(void *const *pointers, size_t count, quarry_occupancy_t *out);

/*
 Like malloc, for an object that moves out of a sparse slab: takes memory from the fullest slab
 that has a free object, not from the objects that CPUs hold, which include those freed last.
 Both quarry_free_dense and free may free it.
 */
void *quarry_malloc_dense(size_t size);

/*
 Like free, for the old memory of a moved object: returns it to its slab at once, so that the
 slab can become empty.

 Same as free.
 */
void quarry_free_dense(void *pointer);

/*
 Creates a cache of objects of `size` bytes, at multiples of `align`: a power of two, or 0, which
 stands for 16. The first 24 bytes of `name` are its name in statistics.

 A constructor, if any, is called once for each object when a slab for it is made, on any thread
 that needs the slab. It may call malloc and free, but no function of quarry.h, and must not wait
 for another thread. Users must free objects in the state in which they got them.

 Only memory bounds the number of caches. CPUs keep objects of 54 of them; each further one takes
 every object from a slab under a lock, and its first slab has at least 32 KiB.

 Returns NULL with EINVAL (size 0 or above 4 MiB, impossible alignment, unknown flag, or a name
 that is NULL or not UTF-8), ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.

 The name ends with a NUL.
 */
quarry_cache *quarry_cache_create(const char *name,
                                  size_t size,
                                  size_t align,
                                  void (*constructor)(void *object),
                                  unsigned int flags);

/*
 Takes an object. Returns NULL with ENOMEM, or with EINVAL if there is no such cache or flag.
 */
void *quarry_cache_alloc(quarry_cache *cache, unsigned int flags);

/*
 Gives an object back; NULL is ignored. Prints a line and aborts if the cache has no object
 there, or if the object is known not to be in use.

 No code uses the object any more.
 */
void quarry_cache_free(quarry_cache *cache, void *object);

/*
 Takes up to `count` objects, stores them from `objects[0]` on, and returns their number. If it
 takes fewer, errno is ENOMEM, or EINVAL if there is no such cache or flag.

 `objects` has room for `count` pointers.
 */
size_t quarry_cache_alloc_bulk(quarry_cache *cache,
                               unsigned int flags,
                               size_t count,
                               void **objects);

/*
 Gives `count` different objects back. Aborts like quarry_cache_free.

 `objects` are `count` pointers, and no code uses the objects any more.
 */
void quarry_cache_free_bulk(quarry_cache *cache, size_t count, void *const *objects);

/*
 Takes `count` objects in advance, so that later requests cannot fail. Returns NULL with ENOMEM
 if there is no memory for all of them, or with EINVAL if `count` is above 4,092 or there is no
 such cache.
 */
quarry_reserve *quarry_cache_prefill(quarry_cache *cache, size_t count);

/*
 Takes an object out of a reserve, for quarry_cache_free. Returns NULL with ENOENT if all objects
 have been taken. Aborts if there is no such reserve.

 No other thread uses the reserve during the call.
 */
void *quarry_reserve_alloc(quarry_reserve *reserve);

/*
 Gives back a reserve and its unused objects; NULL is ignored. Aborts if there is no reserve.

 No code uses the reserve any more.
 */
void quarry_reserve_free(quarry_reserve *reserve);

/*
 Gives back the memory that a cache does not use now. Returns 0, or -1 with EINVAL if there is no
 such cache.
 */
int quarry_cache_shrink(quarry_cache *cache);

/*
 Destroys a cache that is not used any more. Returns 0. If objects are in use, the cache stays:
 prints their number to standard error and returns it. Returns -1 with EINVAL if there is no such
 cache, for example because it was destroyed before.

 No other thread uses the cache during the call.
 */
long quarry_cache_destroy(quarry_cache *cache);

/*
 Takes a block of 2^order pages of 4 KiB (order 0 to 9), at a multiple of its size. Returns NULL
 with ENOMEM, with EINVAL if there is no such order or flag, or with ENOTSUP if QUARRY_DISABLE=1.
 */
void *quarry_pages_alloc(unsigned int order, unsigned int flags);

/*
 Gives a block of pages back; NULL is ignored. Prints a line and aborts if no block of this order
 starts there.

 No code uses the pages any more.
 */
void quarry_pages_free(void *pages, unsigned int order);

/*
 Makes a mapping with the functions of `backing`, which it copies. Its pages have 4 KiB <<
 page_order, for orders 0 to 4. Returns NULL with EINVAL (wrong struct_size, size or read is
 NULL, or order above 4), ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.

 The functions do what quarry_backing requires until the mapping is closed.
 */
quarry_mapping *quarry_mapping_open(const quarry_backing *backing, unsigned int page_order);

/*
 Makes a mapping over an open file. Returns NULL like quarry_mapping_open, or with the errno of
 fstat; it then closes the descriptor if flags have QUARRY_OWN_FD.

 The descriptor stays open until the mapping is closed; if flags have QUARRY_OWN_FD, no other
 code closes it.
 */
quarry_mapping *quarry_mapping_open_fd(int fd, unsigned int page_order, unsigned int flags);

/*
 Writes dirty pages, and closes a mapping; NULL is ignored. Returns 0, or -1 with the errno of a
 write that failed since the last flush: then pages that are still dirty are lost. The mapping is
 closed in both cases.

 No code uses the mapping any more, and none of its pages is pinned.
 */
int quarry_mapping_close(quarry_mapping *mapping);

/*
 Pins a page that is cached; never waits. Returns NULL with ENOENT if the page is not cached.

 The mapping is open.
 */
quarry_page *quarry_page_get(quarry_mapping *mapping, unsigned long index);

/*
 Pins a page, and reads it if it is not cached. Returns NULL with the errno of the backing,
 ENOMEM, ENXIO if the backing has no byte of the page, or ESTALE in the child of a fork.

 The mapping is open.
 */
quarry_page *quarry_page_read(quarry_mapping *mapping, unsigned long index);

/*
 Makes a page of zeroes, pinned and dirty. Returns NULL with EBUSY if the page is cached, with
 ENXIO if it would end after 2^63 bytes, or like quarry_page_read.

 The mapping is open.
 */
quarry_page *quarry_page_create(quarry_mapping *mapping, unsigned long index);

/*
 The bytes of a page, which stay in place while it is pinned. If other threads write the page,
 the caller must lock it.

 The page is pinned.
 */
void *quarry_page_bytes(quarry_page *page);

/*
 Adds a pin to a page.

 The page is pinned.
 */
void quarry_page_pin(quarry_page *page);

/*
 Releases a pin of a page; NULL is ignored.

 The pin belongs to the caller, which does not use the page any more.
 */
void quarry_page_unpin(quarry_page *page);

/*
 Locks a page for reading, or for writing with QUARRY_EXCLUSIVE, and waits for other threads.
 Returns 0; with QUARRY_TRY, -1 with EBUSY instead of waiting.

 The page is pinned, and the calling thread has not locked it.
 */
int quarry_page_lock(quarry_page *page, unsigned int flags);

/*
 Unlocks a page, with the flags with which it was locked. Prints a line and aborts if no thread
 has locked it with these flags, or if another thread has locked it for writing.

 The caller has locked it with these flags.
 */
void quarry_page_unlock(quarry_page *page, unsigned int flags);

/*
 Marks a page as newer than its backing, before it is unlocked. The backing's may_write gets the
 mark: the sequence number of the change in a log, or 0. If too many pages are dirty, this writes
 some of them that no thread has locked.

 The page belongs to the mapping, and is pinned.
 */
void quarry_page_dirty(quarry_mapping *mapping, quarry_page *page, unsigned long mark);

/*
 Writes the dirty pages among `count` pages from `first` on, and waits until they are written.
 Returns 0; or -1 with the errno of a write that failed since the last flush, whose pages stay
 dirty, with EAGAIN if the backing does not allow some pages to be written yet, or with ESTALE.

 The mapping is open, and the calling thread has locked none of its pages.
 */
int quarry_mapping_flush(quarry_mapping *mapping, unsigned long first, unsigned long count);

/*
 Writes all dirty pages, and waits until they survive a loss of power. Returns like
 quarry_mapping_flush.

 Same as quarry_mapping_flush.
 */
int quarry_mapping_sync(quarry_mapping *mapping);

/*
 Drops all pages from index `from` on, dirty ones too. Pinned pages keep their bytes. Returns 0,
 or -1 with ESTALE.

 Same as quarry_mapping_flush.
 */
int quarry_mapping_truncate(quarry_mapping *mapping, unsigned long from);

/*
 Drops the unused clean pages among `count` pages from `first` on; with QUARRY_DIRTY_TOO also
 dirty pages. Returns the number of pages that stay.

 The mapping is open.
 */
unsigned long quarry_mapping_invalidate(quarry_mapping *mapping,
                                        unsigned long first,
                                        unsigned long count,
                                        unsigned int flags);

/*
 Reads the pages among `count` pages from `first` on that are not cached. This is a hint.

 The mapping is open.
 */
void quarry_mapping_prefetch(quarry_mapping *mapping, unsigned long first, unsigned long count);

/*
 Gives a cached page another index, and drops the page that was there. Returns 0; or -1 with
 ENXIO if no page is cached at `old_index` or no page can be at `new_index`, EBUSY if another
 thread uses the page at `new_index`, ENOMEM or ESTALE.

 The mapping is open.
 */
int quarry_mapping_rekey(quarry_mapping *mapping, unsigned long old_index, unsigned long new_index);

/*
 The number of pages that a mapping has cached.

 The mapping is open.
 */
unsigned long quarry_mapping_pages(quarry_mapping *mapping);

/*
 Writes the figures of the budget to the first `bytes` bytes of `out`: programs with an older
 quarry.h have fewer figures. Returns 0, or -1 with ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.

 `out` has room for `bytes` bytes.
 */
int quarry_budget_read(quarry_budget *out, size_t bytes);

/*
 Sets the marks below the limit. min bytes are kept for reclaim itself (SIZE_MAX: a number that
 grows with the square root of the limit). scale is the gap between the marks in 10,000ths of the
 limit, 1 to 3,000. Where the high mark would exceed a quarter of the limit, all are lowered in
 proportion. Returns 0 or -1: EINVAL (also for a min above the limit or 16 TiB), ENOMEM, ENOTSUP.
 */
int quarry_set_marks(size_t min, unsigned int scale);

/*
 Waits until use is within the limit of quarry_set_limit, for at most this many milliseconds.
 Returns 0, or -1 with ETIMEDOUT, ENOMEM or ENOTSUP. The caller must not hold anything that a
 shrinker needs.
 */
int quarry_limit_wait(long milliseconds);

/*
 Reclaims until this many bytes fewer are in use, or nothing more can be freed; returns the bytes
 freed. Calls shrinkers: the caller must not hold anything that they need.
 */
size_t quarry_reclaim(size_t bytes);

/*
 Registers a shrinker, whose functions get `context`. Returns NULL with EINVAL (a function is
 NULL), ENOSPC (64 are registered), ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.

 Any thread may call the functions with the context, until quarry_unregister has returned.
 */
quarry_registration *quarry_shrinker_register(const quarry_shrinker *shrinker, void *context);

/*
 Calls a function with one of QUARRY_PRESSURE_ when the pressure changes, on the threads that
 call shrinkers. Returns NULL with EINVAL (no function), ENOSPC (16 are registered), ENOMEM, or
 ENOTSUP if QUARRY_DISABLE=1.

 Any thread may call the function with the context, until quarry_unregister has returned.
 */
quarry_registration *quarry_pressure_register(void (*tell)(void *context, int level),
                                              void *context);

/*
 Removes a registration, and waits until no call of its functions runs; NULL is ignored. The
 caller must not hold anything that such a call needs, and must not be inside one. Prints a line
 and aborts if there is no registration.

 The handle came from a registration, and no code uses it any more.
 */
void quarry_unregister(quarry_registration *registration);

/*
 Makes a group: an account and limits for one part of the program. It is charged for the file
 mappings, the heaps and the groups in it, and for what malloc hands out to threads inside it.
 parent is the number of the group that it is a part of, which is charged for it, too; 0: of
 none. The first 32 bytes of the name are kept. Returns its number, 1 to 65,535, or -1 with
 EINVAL (a min or low above high or max, a name that is NULL or not UTF-8, no such parent),
 ENOSPC, ENOMEM or ENOTSUP.

 `limits` points to limits, or is NULL for no limits; the name ends with a NUL.
 */
int quarry_group_create(int parent, const char *name, const quarry_group_limits *limits);

/*
 Changes the limits of a group. Returns 0, or -1 with EINVAL.

 Same as quarry_group_create.
 */
int quarry_group_limit(int group, const quarry_group_limits *limits);

/*
 Puts the calling thread into a group, or with 0 into none: what malloc and its relatives hand
 out to it from now on is charged to the group, wherever it is freed. realloc leaves an object
 where it is charged. At the limit of the group, or of one that it is a part of, requests fail
 with ENOMEM. Returns the number of the group that the thread was inside before, which
 quarry_group_leave takes; or -1 with EINVAL or ENOMEM.
 */
int quarry_group_enter(int group);

/*
 Puts the calling thread back into the group that it was inside before quarry_group_enter, which
 has returned its number. Returns 0, or -1 with EINVAL or ENOMEM.
 */
int quarry_group_leave(int before);

/*
 Bytes that are charged to a group; 0 with EINVAL if there is no such group.
 */
size_t quarry_group_used(int group);

/*
 Writes the use of a group to the first `bytes` bytes of `out`. Returns 0, or -1 with EINVAL.

 `out` has room for `bytes` bytes.
 */
int quarry_group_stat(int group, quarry_group_stats *out, size_t bytes);

/*
 Returns the number of the next group after this one, in the order of numbers, 0 for the first;
 0 if there is none.
 */
int quarry_group_next(int after);

/*
 Sets the function that is called when a request for this many bytes has reached the max limit
 of a group, on the thread of the request, which then tries once more; NULL: none. The function
 may call every function, and free or raise the limit. Requests of its own in the group fail at
 the limit. Returns 0, or -1 with EINVAL.

 Any thread may call the function with the context while the group exists.
 */
int quarry_group_on_pressure(int group, void (*tell)(void *context, size_t bytes), void *context);

/*
 Removes a group. What was allocated inside it stays in use, and is charged to the group above.
 Returns 0, or -1 with EBUSY (file mappings, heaps or groups belong to it, or threads are inside)
 or EINVAL.
 */
int quarry_group_destroy(int group);

/*
 Starts a heap profile with about one sample in mean_bytes; 0 stands for 512 KiB. Clears the
 counts of the previous profile. Returns 0, or -1 with ENOTSUP if QUARRY_DISABLE=1, EALREADY if a
 profile is on, EBUSY if another thread is switching it, or the error of the system.
 */
int quarry_profile_start(size_t mean_bytes);

/*
 Stops the heap profile. Its counts can still be written to a file.
 */
void quarry_profile_stop(void);

/*
 Writes the heap profile that is on, or the last profile, to a file descriptor: about 1 MiB, of
 which `quarry profile FILE` makes a profile for pprof, a flame graph or text. Returns 0, or -1
 with ENODATA if there was no profile, or the error of the system.
 */
int quarry_profile_write(int fd);

#ifdef __cplusplus
}
#endif

#endif  /* QUARRY_H */
