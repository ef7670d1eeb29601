/* A vector of strings in a heap of its own: docs/heaps.md. */
#include <quarry.hpp>
#include <string>
#include <vector>

int main()
{
    quarry::heap query("query", 1 << 20);
    quarry::heap_resource resource(query.get());
    std::pmr::vector<std::pmr::string> rows(&resource);
    rows.emplace_back("a row that is too long to be part of the string itself");
    return query.used() > 0 ? 0 : 1;
}
