// QUARRY_LIMIT=64M: what C++ promises where memory is short, and programs that go on afterwards.
#include "check.h"

#include <new>
#include <string>
#include <vector>

static std::vector<char> *reserve;
static int handled;

static void give_up_the_reserve()
{
    handled++;
    if (reserve == nullptr)
        throw std::bad_alloc();
    delete reserve;
    reserve = nullptr;
}

// A vector that cannot grow keeps what it has.
static void strong_guarantee()
{
    std::vector<std::string> strings;
    std::string text(1000, 'x');
    bool refused = false;
    while (!refused) {
        size_t before = strings.size();
        try {
            strings.push_back(text);
        } catch (const std::bad_alloc &) {
            refused = true;
            CHECK(strings.size() == before, "%zu, then %zu", before, strings.size());
        }
    }
    CHECK(strings.size() > 20000, "only %zu strings", strings.size());
    for (const std::string &string : strings)
        CHECK(string == text, "a string changed");
}

// The handler frees something, and the request that called it succeeds.
static void handler_that_helps()
{
    reserve = new std::vector<char>(40 * MIB, 1);
    std::set_new_handler(give_up_the_reserve);
    std::vector<char> needed(50 * MIB, 2);
    CHECK(handled == 1 && reserve == nullptr, "the handler ran %d times", handled);
    bool thrown = false;
    try {
        std::vector<char> more(50 * MIB, 3);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown && handled == 2, "the handler ran %d times", handled);
    std::set_new_handler(nullptr);
}

int main()
{
    require_quarry();
    for (int round = 0; round < 3; round++) {
        CHECK(new (std::nothrow) char[100 * MIB] == nullptr, "more than the limit");
        strong_guarantee();
        handled = 0;
        handler_that_helps();
        std::vector<char> after(30 * MIB, 4);
        CHECK(after.back() == 4, "no memory afterwards");
    }
    return 0;
}
