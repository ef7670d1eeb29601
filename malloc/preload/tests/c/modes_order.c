/* Prints in which order 64 objects of one size lie, by the places of their addresses. */
#include "check.h"

int main(void)
{
    enum { COUNT = 64 };
    char *objects[COUNT];
    for (int i = 0; i < COUNT; i++)
        objects[i] = malloc(100);
    for (int i = 0; i < COUNT; i++) {
        int place = 0;
        for (int other = 0; other < COUNT; other++)
            place += objects[other] < objects[i];
        dprintf(1, "%d ", place);
    }
    dprintf(1, "\n");
    return 0;
}
