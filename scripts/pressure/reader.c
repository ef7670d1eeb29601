/* reader FILE SECONDS: reads 64 KiB at random places of a file of 200 MiB, again and again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    static char bytes[64 << 10];
    if (count != 3)
        return 2;
    int file = open(arguments[1], O_RDONLY);
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM) != 0)
        return 1;
    unsigned random = getpid();
    long read_bytes = 0;
    for (time_t end = time(NULL) + atoi(arguments[2]); time(NULL) < end;) {
        random = random * 1664525 + 1013904223;
        ssize_t got = pread(file, bytes, sizeof bytes, (off_t)(random >> 8) % 3200 << 16);
        if (got < 0)
            return 1;
        read_bytes += got;
    }
    printf("read %ld MiB\n", read_bytes >> 20);
    return 0;
}
