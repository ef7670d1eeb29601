/* Demands that this thread has no restartable sequences, and says how it finds out. */
#include "check.h"

int main(void)
{
    require_quarry();
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    if (size != NULL)
        CHECK(*size == 0, "restartable sequences are registered: __rseq_size is %u", *size);
    for (size_t i = 0; i < LENGTH(EDGE_SIZES); i++) {
        void *object = malloc(EDGE_SIZES[i]);
        CHECK(object != NULL, "malloc(%zu)", EDGE_SIZES[i]);
        free(object);
    }
    return 0;
}
