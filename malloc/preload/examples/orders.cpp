/*
 * A typed cache for C++ on top of quarry.h: values are made in objects of a cache, and owners give
 * them back by themselves.
 *
 *   c++ -std=c++17 -Imalloc/preload/include malloc/preload/examples/orders.cpp \
 *       -Ltarget/release -lquarry-full -Wl,-rpath,target/release -o orders
 */
#include <quarry.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

/* Memory for values of type T. Owners must not outlive it. */
template <typename T> class Cache {
public:
    struct Deleter {
        quarry_cache *cache;

        void operator()(T *value) const noexcept
        {
            value->~T();
            quarry_cache_free(cache, value);
        }
    };
    using Owner = std::unique_ptr<T, Deleter>;

    explicit Cache(const char *name)
        : cache_(quarry_cache_create(name, sizeof(T), alignof(T), nullptr, 0))
    {
        if (cache_ == nullptr)
            throw std::system_error(errno, std::generic_category(), "quarry_cache_create");
    }

    Cache(const Cache &) = delete;
    Cache &operator=(const Cache &) = delete;

    /* Prints a line where an owner was lost. */
    ~Cache() { quarry_cache_destroy(cache_); }

    template <typename... Arguments> Owner make(Arguments &&...arguments)
    {
        void *object = quarry_cache_alloc(cache_, 0);
        if (object == nullptr)
            throw std::bad_alloc();
        try {
            return Owner(new (object) T(std::forward<Arguments>(arguments)...), Deleter{cache_});
        } catch (...) {
            quarry_cache_free(cache_, object);
            throw;
        }
    }

private:
    quarry_cache *cache_;
};

struct Order {
    std::string item;
    int pieces;

    Order(std::string what, int how_many) : item(std::move(what)), pieces(how_many)
    {
        if (pieces <= 0)
            throw std::invalid_argument("no pieces");
    }
};

int main()
{
    Cache<Order> orders("orders");
    std::vector<Cache<Order>::Owner> open;
    for (int i = 1; i <= 100; i++)
        open.push_back(orders.make("stone " + std::to_string(i), i));
    int pieces = 0;
    for (const auto &order : open)
        pieces += order->pieces;
    std::printf("%zu orders, %d pieces\n", open.size(), pieces);
    try {
        orders.make("nothing", 0);
    } catch (const std::invalid_argument &refused) {
        std::printf("refused: %s\n", refused.what());
    }
    open.clear();
    return 0;
}
