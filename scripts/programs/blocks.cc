// Two allocators in one process: see tbbmalloc.sh.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <map>
#include <string>
#include <tbb/scalable_allocator.h>
#include <thread>
#include <vector>

static unsigned long work(int turns, unsigned seed) {
    std::map<std::string, std::vector<std::string>> kept;
    std::vector<void *> blocks(300), others(300);
    unsigned number = seed;
    unsigned long sum = 0;
    for (int turn = 0; turn < turns; turn++) {
        number = number * 1664525u + 1013904223u;
        size_t at = (number >> 8) % blocks.size(), size = 1 + (number >> 16) % 9000;
        free(blocks[at]);
        scalable_free(others[at]);
        switch (turn % 4) {
        case 0: blocks[at] = malloc(size); break;
        case 1: blocks[at] = aligned_alloc(64, (size + 63) / 64 * 64); break;
        case 2: blocks[at] = calloc(size, 3); break;
        default: blocks[at] = realloc(strdup("stone"), size + 100); break;
        }
        sum += malloc_usable_size(blocks[at]) >= size;
        others[at] = scalable_malloc(size);
        memset(others[at], 1, size);
        if (turn % 7 == 0) kept[std::to_string(number % 400)].emplace_back(size % 60, 'x');
        if (turn % 900 == 0) kept.clear();
    }
    for (auto &[name, list] : kept) sum += name.size() + list.size();
    for (void *block : blocks) free(block);
    for (void *other : others) scalable_free(other);
    return sum;
}

int main(int, char **arguments) {
    unsigned long sums[2];
    int turns = atoi(arguments[1]);
    std::thread one([&] { sums[0] = work(turns, 1); });
    std::thread two([&] { sums[1] = work(turns, 2); });
    one.join();
    two.join();
    printf("%lu %lu\n", sums[0], sums[1]);
}
