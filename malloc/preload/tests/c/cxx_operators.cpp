// Every form of operator new, given to every form of operator delete that may take it.
#include "check.h"

#include <new>

namespace {

constexpr size_t DEFAULT_ALIGNMENT = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

struct Request {
    size_t size;
    size_t alignment;
    std::align_val_t align() const { return std::align_val_t{alignment}; }
};

struct New {
    const char *symbol;
    bool aligned;
    bool array;
    void *(*call)(Request);
};

struct Delete {
    const char *symbol;
    bool aligned;
    bool array;
    void (*call)(void *, Request);
};

const New NEWS[] = {
    {"_Znwm", false, false, [](Request r) { return ::operator new(r.size); }},
    {"_Znam", false, true, [](Request r) { return ::operator new[](r.size); }},
    {"_ZnwmRKSt9nothrow_t", false, false,
     [](Request r) { return ::operator new(r.size, std::nothrow); }},
    {"_ZnamRKSt9nothrow_t", false, true,
     [](Request r) { return ::operator new[](r.size, std::nothrow); }},
    {"_ZnwmSt11align_val_t", true, false,
     [](Request r) { return ::operator new(r.size, r.align()); }},
    {"_ZnamSt11align_val_t", true, true,
     [](Request r) { return ::operator new[](r.size, r.align()); }},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", true, false,
     [](Request r) { return ::operator new(r.size, r.align(), std::nothrow); }},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", true, true,
     [](Request r) { return ::operator new[](r.size, r.align(), std::nothrow); }},
};

const Delete DELETES[] = {
    {"_ZdlPv", false, false, [](void *p, Request) { ::operator delete(p); }},
    {"_ZdaPv", false, true, [](void *p, Request) { ::operator delete[](p); }},
    {"_ZdlPvm", false, false, [](void *p, Request r) { ::operator delete(p, r.size); }},
    {"_ZdaPvm", false, true, [](void *p, Request r) { ::operator delete[](p, r.size); }},
    {"_ZdlPvRKSt9nothrow_t", false, false,
     [](void *p, Request) { ::operator delete(p, std::nothrow); }},
    {"_ZdaPvRKSt9nothrow_t", false, true,
     [](void *p, Request) { ::operator delete[](p, std::nothrow); }},
    {"_ZdlPvSt11align_val_t", true, false,
     [](void *p, Request r) { ::operator delete(p, r.align()); }},
    {"_ZdaPvSt11align_val_t", true, true,
     [](void *p, Request r) { ::operator delete[](p, r.align()); }},
    {"_ZdlPvmSt11align_val_t", true, false,
     [](void *p, Request r) { ::operator delete(p, r.size, r.align()); }},
    {"_ZdaPvmSt11align_val_t", true, true,
     [](void *p, Request r) { ::operator delete[](p, r.size, r.align()); }},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", true, false,
     [](void *p, Request r) { ::operator delete(p, r.align(), std::nothrow); }},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", true, true,
     [](void *p, Request r) { ::operator delete[](p, r.align(), std::nothrow); }},
};

void all_symbols_are_quarrys()
{
    if (testing_a_peer())
        return;
    for (const New &form : NEWS)
        CHECK(strstr(file_of_symbol(form.symbol), "libquarry"), "%s comes from %s", form.symbol,
              file_of_symbol(form.symbol));
    for (const Delete &form : DELETES)
        CHECK(strstr(file_of_symbol(form.symbol), "libquarry"), "%s comes from %s", form.symbol,
              file_of_symbol(form.symbol));
}

void round_trip(const New &from, const Delete &to, Request request)
{
    size_t alignment = from.aligned ? request.alignment
                       : request.size >= DEFAULT_ALIGNMENT ? DEFAULT_ALIGNMENT
                                                           : 8;
    void *objects[8];
    for (void *&object : objects) {
        object = opaque(from.call(request));
        CHECK(object != nullptr, "%s(%zu, %zu)", from.symbol, request.size, request.alignment);
        CHECK(reinterpret_cast<uintptr_t>(object) % alignment == 0, "%s(%zu, %zu) = %p",
              from.symbol, request.size, request.alignment, object);
        CHECK(malloc_usable_size(object) >= request.size, "%s(%zu): usable size %zu", from.symbol,
              request.size, malloc_usable_size(object));
        pattern_fill(object, request.size, reinterpret_cast<uintptr_t>(object));
    }
    for (void *object : objects) {
        CHECK_PATTERN(object, request.size, reinterpret_cast<uintptr_t>(object));
        to.call(object, request);
    }
}

void all_combinations()
{
    const size_t sizes[] = {0, 1, 8, 24, 64, 100, 1000, 5000, 33000, 300000, 2 * MIB};
    for (const New &from : NEWS)
        for (const Delete &to : DELETES) {
            if (from.aligned != to.aligned || from.array != to.array)
                continue;
            for (size_t size : sizes)
                for (size_t alignment = 8; alignment <= 65536; alignment *= 4) {
                    round_trip(from, to, Request{size, alignment});
                    if (!from.aligned)
                        break;
                }
        }
}

void delete_of_null()
{
    for (const Delete &form : DELETES)
        form.call(nullptr, Request{64, 64});
}

struct alignas(256) Wide {
    unsigned char bytes[300];
};

struct Counted {
    static int alive;
    uint64_t number;
    explicit Counted(uint64_t n = 7) : number(n) { alive++; }
    ~Counted() { alive--; }
};
int Counted::alive = 0;

void expressions()
{
    Wide *wide = new Wide[3];
    CHECK(reinterpret_cast<uintptr_t>(wide) % 256 == 0, "new Wide[3] = %p",
          static_cast<void *>(wide));
    delete[] wide;
    Counted *one = new Counted(1);
    Counted *many = new (std::nothrow) Counted[1000];
    CHECK(Counted::alive == 1001 && many[999].number == 7, "%d alive", Counted::alive);
    delete one;
    delete[] many;
    CHECK(Counted::alive == 0, "%d alive", Counted::alive);
}

} // namespace

int main()
{
    require_quarry();
    all_symbols_are_quarrys();
    all_combinations();
    delete_of_null();
    expressions();
    return 0;
}
