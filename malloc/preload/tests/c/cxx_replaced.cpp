// Each form of operator new and delete calls the replaced function on which its default definition
// is built, if any is replaced, and only that one. `called_SYMBOL` counts the calls of a replaced
// function (cxx_replacement.c).
#include "check.h"

#include <cstdlib>
#include <new>

namespace {

struct Form {
    const char *symbol;
    const char *base; // what the default definition calls
    bool aligned;
    void *(*allocate)(size_t, std::align_val_t);
    void (*release)(void *, size_t, std::align_val_t);
};

using Align = std::align_val_t;

const Form NEWS[] = {
    {"_Znwm", "malloc", false, [](size_t n, Align) { return ::operator new(n); }, nullptr},
    {"_Znam", "_Znwm", false, [](size_t n, Align) { return ::operator new[](n); }, nullptr},
    {"_ZnwmRKSt9nothrow_t", "_Znwm", false,
     [](size_t n, Align) { return ::operator new(n, std::nothrow); }, nullptr},
    {"_ZnamRKSt9nothrow_t", "_Znam", false,
     [](size_t n, Align) { return ::operator new[](n, std::nothrow); }, nullptr},
    {"_ZnwmSt11align_val_t", nullptr, true,
     [](size_t n, Align a) { return ::operator new(n, a); }, nullptr},
    {"_ZnamSt11align_val_t", "_ZnwmSt11align_val_t", true,
     [](size_t n, Align a) { return ::operator new[](n, a); }, nullptr},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnwmSt11align_val_t", true,
     [](size_t n, Align a) { return ::operator new(n, a, std::nothrow); }, nullptr},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_t", true,
     [](size_t n, Align a) { return ::operator new[](n, a, std::nothrow); }, nullptr},
};

const Form DELETES[] = {
    {"_ZdlPv", "free", false, nullptr, [](void *p, size_t, Align) { ::operator delete(p); }},
    {"_ZdaPv", "_ZdlPv", false, nullptr, [](void *p, size_t, Align) { ::operator delete[](p); }},
    {"_ZdlPvm", "_ZdlPv", false, nullptr,
     [](void *p, size_t n, Align) { ::operator delete(p, n); }},
    {"_ZdaPvm", "_ZdaPv", false, nullptr,
     [](void *p, size_t n, Align) { ::operator delete[](p, n); }},
    {"_ZdlPvRKSt9nothrow_t", "_ZdlPv", false, nullptr,
     [](void *p, size_t, Align) { ::operator delete(p, std::nothrow); }},
    {"_ZdaPvRKSt9nothrow_t", "_ZdaPv", false, nullptr,
     [](void *p, size_t, Align) { ::operator delete[](p, std::nothrow); }},
    {"_ZdlPvSt11align_val_t", "free", true, nullptr,
     [](void *p, size_t, Align a) { ::operator delete(p, a); }},
    {"_ZdaPvSt11align_val_t", "_ZdlPvSt11align_val_t", true, nullptr,
     [](void *p, size_t, Align a) { ::operator delete[](p, a); }},
    {"_ZdlPvmSt11align_val_t", "_ZdlPvSt11align_val_t", true, nullptr,
     [](void *p, size_t n, Align a) { ::operator delete(p, n, a); }},
    {"_ZdaPvmSt11align_val_t", "_ZdaPvSt11align_val_t", true, nullptr,
     [](void *p, size_t n, Align a) { ::operator delete[](p, n, a); }},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdlPvSt11align_val_t", true, nullptr,
     [](void *p, size_t, Align a) { ::operator delete(p, a, std::nothrow); }},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_t", true, nullptr,
     [](void *p, size_t, Align a) { ::operator delete[](p, a, std::nothrow); }},
};

const char *const ENDS[] = {"malloc", "free"};
const size_t ALL = LENGTH(NEWS) + LENGTH(DELETES) + LENGTH(ENDS);

// The symbol with this number, of all forms and of what they end in.
const char *symbol(size_t number)
{
    if (number < LENGTH(NEWS))
        return NEWS[number].symbol;
    number -= LENGTH(NEWS);
    return number < LENGTH(DELETES) ? DELETES[number].symbol : ENDS[number - LENGTH(DELETES)];
}

int *counters[ALL]; // null where no object has replaced the function

size_t number_of(const char *name)
{
    for (size_t number = 0; number < ALL; number++)
        if (strcmp(symbol(number), name) == 0)
            return number;
    CHECK(false, "no form %s", name);
    return 0;
}

const char *base_of(const char *name)
{
    for (const Form &form : NEWS)
        if (strcmp(form.symbol, name) == 0)
            return form.base;
    for (const Form &form : DELETES)
        if (strcmp(form.symbol, name) == 0)
            return form.base;
    return nullptr;
}

// The replaced function that a call of `name` has to reach first, or null.
const char *reached(const char *name)
{
    while (name != nullptr && counters[number_of(name)] == nullptr)
        name = base_of(name);
    return name;
}

int before[ALL];

void remember()
{
    for (size_t number = 0; number < ALL; number++)
        before[number] = counters[number] == nullptr ? 0 : *counters[number];
}

// Of the operators, only the one that `name` has to reach was called, once; and what every operator
// ends in, if it is replaced, was called exactly once, but for aligned_alloc.
void check_calls(const char *name, const char *end, size_t size)
{
    const char *first = reached(name);
    for (size_t number = 0; number < ALL; number++) {
        if (counters[number] == nullptr)
            continue;
        int calls = *counters[number] - before[number];
        const char *other = symbol(number);
        bool is_due = (first != nullptr && strcmp(first, other) == 0) ||
                      (end != nullptr && strcmp(end, other) == 0);
        CHECK(calls == (is_due ? 1 : 0), "%s of %zu bytes called %s %d times", name, size, other,
              calls);
    }
}

} // namespace

extern "C" void check_replaced(void);

extern "C" void check_replaced(void)
{
    const size_t sizes[] = {1, 24, 1000, 20000, 40000, 3 << 20};
    for (size_t number = 0; number < ALL; number++) {
        char name[100];
        snprintf(name, sizeof(name), "called_%s", symbol(number));
        counters[number] = static_cast<int *>(dlsym(RTLD_DEFAULT, name));
    }
    // At its first call a function may be looked up, for which the loader allocates.
    for (int round = 0; round < 2; round++)
        for (size_t size : sizes)
            for (const Form &made : NEWS)
                for (const Form &freed : DELETES) {
                    if (made.aligned != freed.aligned)
                        continue;
                    const Align align{64};
                    size_t rounded = made.aligned ? (size + 63) / 64 * 64 : size;
                    remember();
                    void *p = opaque(made.allocate(rounded, align));
                    if (round > 0)
                        check_calls(made.symbol, made.aligned ? nullptr : "malloc", size);
                    CHECK(p != nullptr, "%s", made.symbol);
                    memset(p, 7, rounded < 100 ? rounded : 100);
                    remember();
                    freed.release(p, rounded, align);
                    if (round > 0)
                        check_calls(freed.symbol, "free", size);
                }
}

#ifndef PLUGIN
int main()
{
    check_replaced();
    return 0;
}
#endif
