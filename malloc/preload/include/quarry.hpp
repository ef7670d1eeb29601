/* Quarry's heaps for C++17: a std::pmr::memory_resource, an allocator for containers, and an owner
 * of a heap. Header only; link with -lquarry-full. See quarry.h for the functions behind them. */

#ifndef QUARRY_HPP
#define QUARRY_HPP

#include "quarry.h"

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <new>

namespace quarry {

/* Memory of `bytes` bytes at a multiple of `alignment` in a heap; throws std::bad_alloc if the
 * heap's limit is reached or there is no memory. std::free gives it back, as does the heap's end. */
inline void *allocate(quarry_heap *heap, std::size_t bytes, std::size_t alignment)
{
    void *memory = alignment <= alignof(std::max_align_t)
                       ? quarry_heap_malloc(heap, bytes)
                       : quarry_heap_aligned_alloc(heap, alignment, bytes);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

/* A heap as a memory resource: for std::pmr's containers, which live shorter than the heap. Any
 * thread may use it. Two resources of one heap are equal. */
class heap_resource : public std::pmr::memory_resource {
  public:
    explicit heap_resource(quarry_heap *heap) noexcept : heap_(heap) {}

    quarry_heap *heap() const noexcept { return heap_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        return quarry::allocate(heap_, bytes, alignment);
    }

    void do_deallocate(void *memory, std::size_t, std::size_t) override { std::free(memory); }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        auto *resource = dynamic_cast<const heap_resource *>(&other);
        return resource != nullptr && resource->heap_ == heap_;
    }

    quarry_heap *heap_;
};

/* A heap as the allocator of a container of the standard library. */
template <class T> class heap_allocator {
  public:
    using value_type = T;

    explicit heap_allocator(quarry_heap *heap) noexcept : heap_(heap) {}

    template <class U>
    heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.heap())
    {
    }

    quarry_heap *heap() const noexcept { return heap_; }

    T *allocate(std::size_t count)
    {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw std::bad_array_new_length();
        return static_cast<T *>(quarry::allocate(heap_, count * sizeof(T), alignof(T)));
    }

    void deallocate(T *memory, std::size_t) noexcept { std::free(memory); }

  private:
    quarry_heap *heap_;
};

template <class T, class U>
bool operator==(const heap_allocator<T> &one, const heap_allocator<U> &other) noexcept
{
    return one.heap() == other.heap();
}

template <class T, class U>
bool operator!=(const heap_allocator<T> &one, const heap_allocator<U> &other) noexcept
{
    return !(one == other);
}

/* The owner of a heap, which ends with it, and all that lives in the heap. It runs no destructor of
 * these objects. */
class heap {
  public:
    /* Throws std::bad_alloc where quarry_heap_create fails; a limit of 0 is none. */
    explicit heap(const char *name, std::size_t limit = 0) : heap_(quarry_heap_create(name, limit))
    {
        if (heap_ == nullptr)
            throw std::bad_alloc();
    }

    heap(heap &&other) noexcept : heap_(other.heap_) { other.heap_ = nullptr; }

    heap &operator=(heap &&other) noexcept
    {
        quarry_heap *taken = other.heap_;
        other.heap_ = nullptr;
        quarry_heap_destroy(heap_);
        heap_ = taken;
        return *this;
    }

    ~heap() { quarry_heap_destroy(heap_); }

    quarry_heap *get() const noexcept { return heap_; }

    std::size_t used() const noexcept { return quarry_heap_used(heap_); }

    /* Frees all objects at once. */
    void reset() noexcept { quarry_heap_reset(heap_); }

  private:
    quarry_heap *heap_;
};

} // namespace quarry

#endif
