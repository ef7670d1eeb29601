#include <cstddef>
#include <new>
#include <string>

namespace {

int handled;

void give_up()
{
    if (++handled == 2)
        std::set_new_handler(nullptr);
}

template <class Call> bool throws(Call call)
{
    try {
        call(std::size_t{64} << 20);
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

} // namespace

extern "C" void *cxx_string(std::size_t size) { return new std::string(size, 'x'); }

extern "C" void cxx_release(void *string) { delete static_cast<std::string *>(string); }

extern "C" int cxx_fails()
{
    handled = 0;
    std::set_new_handler(give_up);
    int failed = throws([](std::size_t n) { return ::operator new[](n); }) && handled == 2;
    failed |= (::operator new(std::size_t{64} << 20, std::nothrow) == nullptr) << 1;
    failed |= throws([](std::size_t n) { return ::operator new(n, std::align_val_t{64}); }) << 2;
    return failed;
}
