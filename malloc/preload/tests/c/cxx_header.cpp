// A program that replaces only `operator new(size_t)` and `operator delete(void*)`, by ones that
// put a header before each object, as programs that count their memory do.
#include "check.h"

#include <memory>
#include <new>
#include <string>
#include <vector>

// g++ warns of exactly this.
#pragma GCC diagnostic ignored "-Wsized-deallocation"

static long live;
enum { HEADER = 32, MAGIC = 0x51ab };

void *operator new(size_t size)
{
    char *block = static_cast<char *>(malloc(size + HEADER));
    if (block == nullptr)
        throw std::bad_alloc();
    *reinterpret_cast<long *>(block) = MAGIC;
    live++;
    return block + HEADER;
}

void operator delete(void *pointer) noexcept
{
    if (pointer == nullptr)
        return;
    char *block = static_cast<char *>(pointer) - HEADER;
    CHECK(*reinterpret_cast<long *>(block) == MAGIC, "a stranger: %p", pointer);
    *reinterpret_cast<long *>(block) = 0;
    live--;
    free(block);
}

struct alignas(128) Wide {
    char bytes[256];
};

int main()
{
    long before = live;
    {
        std::vector<std::string> strings;
        for (size_t k = 0; k < 3000; k++)
            strings.push_back(std::string(k, 'a'));
        auto array = std::make_unique<int[]>(1000);
        auto text = std::make_shared<std::string>(500, 'b');
        std::unique_ptr<Wide> wide(new Wide);
        std::unique_ptr<Wide[]> wides(new Wide[9]);
        delete new (std::nothrow) std::string(100, 'c');
        delete[] new (std::nothrow) char[100];
        ::operator delete[](::operator new[](1000), std::nothrow);
        ::operator delete(::operator new(1000), size_t(1000));
        CHECK(live > before + 2900, "%ld", live - before);
    }
    CHECK(live == before, "%ld objects are left", live - before);
    bool is_thrown = false;
    try {
        opaque(new char[opaque_size(PTRDIFF_MAX - 100)]);
    } catch (const std::bad_alloc &) {
        is_thrown = true;
    }
    CHECK(is_thrown, "no bad_alloc");
    CHECK(opaque(new (std::nothrow) char[opaque_size(PTRDIFF_MAX - 100)]) == nullptr, "nothrow");
    return 0;
}
