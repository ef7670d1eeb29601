// Large blocks: each of 20 of 5 to 25 MiB is replaced by another, zeroed, as mimalloc-bench's
// malloc-large does.
//
//   c++ -O2 scripts/large.cpp -o large
//   LD_PRELOAD=libquarry.so ./large 500
//
// The number is that of replacements. Prints wall time, CPU time, page faults and peak memory.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

int main(int count, char **arguments)
{
    long replacements = count == 2 ? std::atol(arguments[1]) : 0;
    if (replacements < 1) {
        std::fprintf(stderr, "usage: large REPLACEMENTS\n");
        return 2;
    }
    std::mt19937 random(42);
    std::uniform_int_distribution<> place(0, 19), size(5 << 20, 25 << 20);
    std::unique_ptr<char[]> blocks[20];
    auto began = std::chrono::steady_clock::now();
    for (long done = 0; done < replacements; done++)
        blocks[place(random)] = std::make_unique<char[]>(size(random));
    std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    auto seconds = [](timeval time) { return time.tv_sec + time.tv_usec * 1e-6; };
    std::printf("%.2f s, CPU %.2f s, %ld page faults, peak %ld MiB\n", wall.count(),
                seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_minflt,
                used.ru_maxrss >> 10);
}
