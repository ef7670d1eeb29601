/* Opens and closes sessions, and loses memory at one allocation: scripts/demo.sh finds it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    char name[64];
    char *answer;
};

static struct session *open_session(int number)
{
    struct session *session = malloc(sizeof *session);
    snprintf(session->name, sizeof session->name, "client %d", number);
    session->answer = malloc(1000); /* planted: nobody frees it */
    memset(session->answer, number, 1000);
    return session;
}

static void close_session(struct session *session)
{
    free(session);
}

int main(void)
{
    for (int number = 0; number < 50000; number++)
        close_session(open_session(number));
    return 0;
}
