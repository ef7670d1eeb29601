// Allocation before main and after it: preinit_array, init_array, constructors in order, C++
// statics, atexit, destructors, fini_array. Every stage frees what an earlier one allocated.
#include "check.h"

#include <map>
#include <string>

namespace {

struct Stage {
    void *small;
    void *block;
    void *mapping;
};

enum { PREINIT, INIT, FIRST, LAST, STATIC, MAIN, STAGES };
Stage stages[STAGES];
int passed = 0;

constexpr size_t SMALL = 120, BLOCK = 150000, MAPPING = 9 * MIB;

void begin(int stage)
{
    Stage &s = stages[stage];
    s.small = malloc(SMALL);
    s.block = calloc(1, BLOCK);
    s.mapping = realloc(malloc(100), MAPPING);
    CHECK(s.small && s.block && s.mapping, "stage %d cannot allocate", stage);
    pattern_fill(s.small, SMALL, 1);
    pattern_fill(s.block, BLOCK, 2);
    pattern_fill(s.mapping, MAPPING, 3);
    passed |= 1 << stage;
}

void end(int stage)
{
    Stage &s = stages[stage];
    CHECK_PATTERN(s.small, SMALL, 1);
    CHECK_PATTERN(s.block, BLOCK, 2);
    CHECK_PATTERN(s.mapping, MAPPING, 3);
    free(s.small);
    free(s.block);
    free(s.mapping);
    s = Stage{};
}

void at_preinit(int, char **, char **)
{
    begin(PREINIT);
}

void at_init(int, char **, char **)
{
    end(PREINIT);
    begin(PREINIT);
    begin(INIT);
}

__attribute__((constructor(101))) void first_constructor()
{
    begin(FIRST);
}

__attribute__((constructor)) void last_constructor()
{
    begin(LAST);
}

// The last code of the program: objects that main left still have their contents.
__attribute__((destructor(101))) void last_destructor()
{
    end(FIRST);
    begin(FIRST);
    end(FIRST);
    CHECK(passed == (1 << STAGES) - 1, "stages passed: %#x", passed);
    static const char done[] = "every stage passed\n";
    CHECK(write(1, done, sizeof(done) - 1) > 0, "standard output is closed");
}

struct Static {
    std::map<int, std::string> strings;
    Static()
    {
        begin(STATIC);
        for (int k = 0; k < 1000; k++)
            strings[k] = std::string(static_cast<size_t>(k), 's');
    }
    ~Static()
    {
        end(STATIC);
        CHECK(strings[999].size() == 999, "string of %zu", strings[999].size());
    }
} a_static;

void at_exit()
{
    end(INIT);
    end(LAST);
    begin(LAST);
    end(LAST);
}

void at_exit_of_main()
{
    end(MAIN);
}

} // namespace

__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) =
    at_preinit;
__attribute__((section(".init_array.00050"), used)) static void (*init)(int, char **, char **) =
    at_init;

int main()
{
    require_quarry();
    end(PREINIT);
    atexit(at_exit);
    begin(MAIN);
    atexit(at_exit_of_main);
    return 0;
}
