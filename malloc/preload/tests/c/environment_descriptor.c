/*
 * Closes every descriptor from 3 on (with `all`, also standard error), as daemons do, and opens
 * FILE under each number that was in use. Quarry's output at exit must not go into FILE.
 * usage: environment_descriptor FILE [all]
 */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc >= 2, "usage: %s FILE [all]", argv[0]);
    require_quarry();
    int first = argc > 2 ? STDERR_FILENO : STDERR_FILENO + 1;
    int taken = 0;
    for (int number = 1000; number >= first; number--) {
        if (close(number) != 0)
            continue;
        int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
        CHECK(file >= 0, "%s cannot be opened", argv[1]);
        if (file != number) {
            CHECK(dup2(file, number) == number, "dup2");
            close(file);
        }
        taken++;
    }
    /* A copy of standard error was kept for the statistics. */
    CHECK(taken >= 1, "no descriptor was in use");
    CHECK(write(first == STDERR_FILENO ? 2 : 100, "mine\n", 5) == 5, "%s is not open", argv[1]);
    return 0;
}
