// Destructors that run when a thread ends allocate: those of pthread keys, in several rounds, and
// those of C++ thread_local objects. The joining thread frees what they hand over.
#include "check.h"

#include <atomic>
#include <climits>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> keys_destroyed{0};
std::atomic<int> objects_destroyed{0};
std::atomic<void *> handed_over{nullptr};
pthread_key_t key;

// Sets the key again, so that glibc calls the destructor in all its rounds.
void destroy_key(void *value)
{
    CHECK_PATTERN(value, 300, 4);
    free(value);
    keys_destroyed++;
    void *next = malloc(300);
    CHECK(next != nullptr, "malloc in the destructor of a key");
    pattern_fill(next, 300, 4);
    if (keys_destroyed % PTHREAD_DESTRUCTOR_ITERATIONS == 0) {
        void *before = handed_over.exchange(next);
        free(before);
        return;
    }
    CHECK(pthread_setspecific(key, next) == 0, "pthread_setspecific");
}

struct Local {
    std::vector<std::string> strings;
    Local() : strings(10, std::string(500, 't')) {}
    ~Local()
    {
        CHECK(strings[9].size() == 500, "string of %zu", strings[9].size());
        std::vector<std::string> copy(strings);
        copy.resize(100);
        objects_destroyed++;
    }
};

thread_local Local local;

void body()
{
    void *value = malloc(300);
    CHECK(value != nullptr, "malloc");
    pattern_fill(value, 300, 4);
    CHECK(pthread_setspecific(key, value) == 0, "pthread_setspecific");
    local.strings.push_back("more");
}

} // namespace

int main()
{
    require_quarry();
    CHECK(pthread_key_create(&key, destroy_key) == 0, "pthread_key_create");
    enum { ROUNDS = 500 };
    for (int round = 0; round < ROUNDS; round++)
        std::thread(body).join();
    CHECK(keys_destroyed == ROUNDS * PTHREAD_DESTRUCTOR_ITERATIONS, "%d keys destroyed",
          keys_destroyed.load());
    CHECK(objects_destroyed == ROUNDS, "%d objects destroyed", objects_destroyed.load());
    CHECK_PATTERN(handed_over.load(), 300, 4);
    free(handed_over);
    return 0;
}
