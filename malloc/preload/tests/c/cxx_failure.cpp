// operator new fails in every way that C++ knows: the new-handler, bad_alloc, null for nothrow; and
// exceptions that pass through many frames.
#include "check.h"

#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Call = void *(*)(size_t);

const Call THROWING[] = {
    [](size_t n) { return ::operator new(n); },
    [](size_t n) { return ::operator new[](n); },
    [](size_t n) { return ::operator new(n, std::align_val_t{64}); },
    [](size_t n) { return ::operator new[](n, std::align_val_t{64}); },
    [](size_t n) { return ::operator new(n, std::align_val_t{8192}); },
};

const Call NOTHROW[] = {
    [](size_t n) { return ::operator new(n, std::nothrow); },
    [](size_t n) { return ::operator new[](n, std::nothrow); },
    [](size_t n) { return ::operator new(n, std::align_val_t{64}, std::nothrow); },
    [](size_t n) { return ::operator new[](n, std::align_val_t{64}, std::nothrow); },
};

// With the last sizes, libstdc++ 12's own aligned forms overflow to 0 and return an empty object.
const size_t IMPOSSIBLE[] = {
    PTRDIFF_MAX, size_t{PTRDIFF_MAX} + 1, size_t{1} << 60, SIZE_MAX - 65536, SIZE_MAX - 62, SIZE_MAX,
};

size_t impossible_sizes()
{
    return testing_a_peer() ? 4 : LENGTH(IMPOSSIBLE);
}

void bad_alloc_is_thrown()
{
    for (Call call : THROWING)
        for (size_t k = 0; k < impossible_sizes(); k++) {
            size_t size = IMPOSSIBLE[k];
            bool caught = false;
            try {
                void *object = opaque(call(opaque_size(size)));
                CHECK(false, "operator new(%zu) = %p", size, object);
            } catch (const std::bad_alloc &) {
                caught = true;
            }
            CHECK(caught, "no bad_alloc for %zu", size);
        }
}

void nothrow_returns_null()
{
    for (Call call : NOTHROW)
        for (size_t k = 0; k < impossible_sizes(); k++) {
            size_t size = IMPOSSIBLE[k];
            void *object = opaque(call(opaque_size(size)));
            CHECK(object == nullptr, "nothrow new(%zu) = %p", size, object);
        }
}

int handled = 0;

void give_up_at_the_third()
{
    if (++handled == 3)
        std::set_new_handler(nullptr);
}

void new_handler_is_called()
{
    for (Call call : THROWING) {
        handled = 0;
        std::set_new_handler(give_up_at_the_third);
        bool caught = false;
        try {
            opaque(call(opaque_size(SIZE_MAX - 65536)));
        } catch (const std::bad_alloc &) {
            caught = true;
        }
        CHECK(caught && handled == 3, "caught %d, handler called %d times", caught, handled);
    }
    for (Call call : NOTHROW) {
        handled = 0;
        std::set_new_handler(give_up_at_the_third);
        void *object = opaque(call(opaque_size(SIZE_MAX - 65536)));
        CHECK(object == nullptr && handled == 3, "%p, handler called %d times", object, handled);
    }
    std::set_new_handler(nullptr);
}

struct OwnError : std::bad_alloc {
    const char *what() const noexcept override { return "own"; }
};

struct Witness {
    int &count;
    explicit Witness(int &c) : count(c) {}
    ~Witness() { count++; }
};

// Noinline frames with destructors between the allocation and the handler.
__attribute__((noinline)) void deep(int depth, int &unwound)
{
    Witness witness(unwound);
    std::string text(static_cast<size_t>(depth) + 40, 'x');
    if (depth == 0)
        opaque(::operator new(opaque_size(SIZE_MAX - 65536)));
    else
        deep(depth - 1, unwound);
    CHECK(text.size() >= 40, "text of %zu", text.size());
}

void handler_may_throw()
{
    std::set_new_handler([] { throw OwnError(); });
    int unwound = 0;
    bool caught = false;
    try {
        deep(50, unwound);
    } catch (const OwnError &error) {
        caught = strcmp(error.what(), "own") == 0;
    }
    CHECK(caught && unwound == 51, "caught %d, %d frames unwound", caught, unwound);
    for (Call call : NOTHROW)
        CHECK(call(opaque_size(SIZE_MAX - 65536)) == nullptr, "nothrow new gave memory");
    std::set_new_handler(nullptr);
}

struct Block {
    uint64_t words[512];
};

void containers_report()
{
    std::vector<Block> blocks(3);
    bool caught = false;
    try {
        blocks.reserve(blocks.max_size());
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught && blocks.size() == 3, "reserve of everything: caught %d", caught);
    volatile size_t negative = SIZE_MAX;
    caught = false;
    try {
        opaque(new uint64_t[negative]);
    } catch (const std::bad_array_new_length &) {
        caught = true;
    }
    CHECK(caught, "no bad_array_new_length");
}

struct Fails {
    std::string text;
    explicit Fails(int k) : text(100, 'y')
    {
        if (k == 3)
            throw std::runtime_error("constructor");
    }
};

// The matching operator delete runs when a constructor throws.
void failing_constructors()
{
    size_t before = resident_bytes();
    int caught = 0;
    for (int round = 0; round < 20000; round++)
        try {
            std::vector<std::unique_ptr<Fails>> all;
            for (int k = 0; k < 5; k++)
                all.push_back(std::make_unique<Fails>(k));
        } catch (const std::runtime_error &) {
            caught++;
        }
    CHECK(caught == 20000, "%d caught", caught);
    size_t after = resident_bytes();
    CHECK(after < before + 16 * MIB, "resident memory grew from %zu to %zu", before, after);
}

void exceptions_on_threads()
{
    std::vector<std::thread> threads;
    std::vector<int> caught(8);
    for (size_t k = 0; k < caught.size(); k++)
        threads.emplace_back([&caught, k] {
            std::map<int, std::string> held;
            for (int round = 0; round < 500; round++) {
                held[round] = std::string(static_cast<size_t>(round), 'z');
                try {
                    opaque(::operator new(opaque_size(SIZE_MAX - 65536 - static_cast<size_t>(round))));
                } catch (const std::bad_alloc &) {
                    caught[k]++;
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (int count : caught)
        CHECK(count == 500, "%d caught", count);
}

} // namespace

int main()
{
    require_quarry();
    bad_alloc_is_thrown();
    nothrow_returns_null();
    new_handler_is_called();
    handler_may_throw();
    containers_report();
    failing_constructors();
    exceptions_on_threads();
    return 0;
}
