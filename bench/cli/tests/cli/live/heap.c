// A program whose heap a debugger walks: 40 objects of 100 bytes, one of them freed, and two larger
// requests. It stops itself when it is ready.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

char *kept[40], *freed, *block, *mapping, foreign;

int main(void) {
    for (int i = 0; i < 40; i++)
        kept[i] = malloc(100);
    freed = kept[20];
    free(freed);
    block = malloc(100000);
    mapping = malloc(5 << 20);
    puts("ready");
    fflush(stdout);
    raise(SIGSTOP);
}
