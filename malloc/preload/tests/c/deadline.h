/* A process that hangs prints the step in which it hangs, and exits. */
#ifndef QUARRY_TEST_DEADLINE_H
#define QUARRY_TEST_DEADLINE_H

#include "check.h"

#include <signal.h>

static const char *volatile deadline_step;

static UNUSED void deadline_passed(int number)
{
    (void)number;
    CHECK(0, "hangs: %s", deadline_step);
}

/* From now on `step` may take `seconds` times TEST_PATIENCE, which only a hang exceeds. */
static UNUSED void deadline(unsigned seconds, const char *step)
{
    const char *patience = getenv("TEST_PATIENCE");
    deadline_step = step;
    signal(SIGALRM, deadline_passed);
    alarm(seconds * (patience ? (unsigned)atoi(patience) : 1));
}

#endif
