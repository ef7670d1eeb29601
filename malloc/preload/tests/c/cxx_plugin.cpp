// A C++ library that a C program opens with RTLD_LOCAL: libstdc++ is in no global scope then.
#include "check.h"

#include <memory>
#include <new>
#include <string>
#include <vector>

extern "C" int plugin_strings(int count)
{
    std::vector<std::string> strings;
    for (int k = 0; k < count; k++)
        strings.push_back(std::string(static_cast<size_t>(k), 'a'));
    return static_cast<int>(strings.back().size());
}

extern "C" int plugin_catches_bad_alloc(size_t size)
{
    try {
        std::unique_ptr<char[]> bytes(static_cast<char *>(opaque(new char[size])));
        return bytes == nullptr ? -1 : -2;
    } catch (const std::bad_alloc &) {
        return 1;
    }
}

extern "C" int plugin_nothrow_is_null(size_t size)
{
    char *bytes = static_cast<char *>(opaque(new (std::nothrow) char[size]));
    int null = bytes == nullptr;
    delete[] bytes;
    return null;
}
