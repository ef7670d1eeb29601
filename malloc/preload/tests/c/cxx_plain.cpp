// A program in C++ that uses its memory in the usual ways, and replaces nothing.
#include "check.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

struct alignas(64) Wide {
    char bytes[192];
};

int main()
{
    std::map<int, std::vector<std::string>> map;
    for (int k = 0; k < 5000; k++)
        map[k % 50].push_back(std::string(static_cast<size_t>(k % 400), 'a'));
    auto array = std::make_unique<int[]>(100000);
    std::unique_ptr<Wide[]> wides(new Wide[9]);
    std::unique_ptr<Wide> wide(new Wide);
    delete new (std::nothrow) std::string(100, 'c');
    ::operator delete(::operator new(1000), size_t(1000));
    ::operator delete[](::operator new[](50000), std::nothrow);
    CHECK(map[7].size() == 100, "%zu", map[7].size());
    return 0;
}
