/* Containers of the standard library in heaps, by quarry.hpp. */
#include "quarry.hpp"

#include "check.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

static void containers_of_pmr()
{
    quarry::heap heap("pmr");
    quarry::heap_resource resource(heap.get()), same(heap.get());
    quarry::heap other("other");
    quarry::heap_resource another(other.get());
    CHECK(resource == same && resource != another, "resources");
    CHECK(resource != *std::pmr::new_delete_resource(), "another resource");
    {
        std::pmr::vector<std::pmr::string> names(&resource);
        std::pmr::unordered_map<int, std::pmr::string> by_number(&resource);
        for (int i = 0; i < 10000; i++) {
            names.emplace_back("a name that is too long to be part of the string itself");
            by_number.emplace(i, names.back());
        }
        CHECK(heap.used() > 10000 * 2 * 56, "%zu bytes", heap.used());
        CHECK(other.used() == 0, "%zu bytes", other.used());
        CHECK(by_number.at(77) == names[77], "a name");
        std::pmr::vector<std::pmr::string> moved(std::move(names), &another);
        CHECK(other.used() > 10000 * 56 && moved.size() == 10000, "%zu bytes", other.used());
    }
    CHECK(heap.used() == 0 && other.used() == 0, "%zu and %zu bytes", heap.used(), other.used());
}

struct alignas(256) Aligned {
    char bytes[256];
};

static void containers_with_an_allocator()
{
    quarry::heap heap("allocator");
    using Pair = std::pair<const int, Aligned>;
    using Allocator = quarry::heap_allocator<Pair>;
    {
        std::map<int, Aligned, std::less<int>, Allocator> map{Allocator(heap.get())};
        for (int i = 0; i < 1000; i++) {
            Aligned &value = map[i];
            CHECK((uintptr_t)&value % 256 == 0, "%p", (void *)&value);
        }
        auto shared = std::allocate_shared<int>(quarry::heap_allocator<int>(heap.get()), 7);
        CHECK(*shared == 7 && heap.used() > 1000 * 256, "%zu bytes", heap.used());
        CHECK(Allocator(heap.get()) == quarry::heap_allocator<int>(heap.get()), "equal");
    }
    CHECK(heap.used() == 0, "%zu bytes", heap.used());
    bool is_refused = false;
    try {
        quarry::heap_allocator<long>(heap.get()).allocate(opaque_size(SIZE_MAX / 4));
    } catch (const std::bad_array_new_length &) {
        is_refused = true;
    }
    CHECK(is_refused, "the product overflows");
}

static void a_limit_throws_and_all_goes_at_once()
{
    quarry::heap heap("bounded", MIB);
    quarry::heap_resource resource(heap.get());
    auto *left = new (quarry::allocate(heap.get(), sizeof(std::pmr::vector<std::pmr::string>), 16))
        std::pmr::vector<std::pmr::string>(&resource);
    bool is_refused = false;
    try {
        for (;;)
            left->emplace_back(100, 'x');
    } catch (const std::bad_alloc &) {
        is_refused = true;
    }
    CHECK(is_refused && left->size() > 2000, "%zu strings", left->size());
    /* No destructor runs: the vector and its strings go with the heap's reset. */
    heap.reset();
    CHECK(heap.used() == 0, "%zu bytes", heap.used());
    quarry::heap taken(std::move(heap));
    std::free(quarry::allocate(taken.get(), 100, 16));
    taken = quarry::heap("next");
    CHECK(taken.used() == 0, "%zu bytes", taken.used());
}

int main()
{
    require_quarry();
    containers_of_pmr();
    containers_with_an_allocator();
    a_limit_throws_and_all_goes_at_once();
    return 0;
}
