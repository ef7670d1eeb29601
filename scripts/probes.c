/* Two call sites: one allocates often and frees, the other seldom, and keeps what it gets. */
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void *rare(size_t size)
{
    void *object = malloc(size);
    memset(object, 1, size);
    return object;
}

__attribute__((noinline)) static void often(size_t size)
{
    void *object = malloc(size);
    memset(object, 1, size);
    free(object);
}

int main(void)
{
    static void *kept[20000];
    for (int i = 0; i < 20000; i++) {
        for (int j = 0; j < 10; j++)
            often(600);
        kept[i] = rare(1000);
    }
    return kept[0] == NULL;
}
