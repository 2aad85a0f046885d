/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives a program real-time priority and none of root's rights: `first 90 1883 mosquitto -c …` in compose/priority.yml.
 * It stands in for chrt(1) and setpriv(1), which a published broker's image need not have: Alpine's has no chrt, and of
 * setpriv only a part. Linked statically, so whatever C library is there, if any, does not matter.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void must(int failed, const char *what)
{
    if (failed) {
        perror(what);
        exit(126);
    }
}

int main(int count, char **words)
{
    if (count < 4) {
        fputs("usage: first PRIORITY USER-ID PROGRAM [ARGUMENT]...\n", stderr);
        return 2;
    }
    const struct sched_param wanted = {.sched_priority = atoi(words[1])};
    const unsigned user = (unsigned)atoi(words[2]);
    must(sched_setscheduler(0, SCHED_FIFO, &wanted), "first: SCHED_FIFO (see compose/priority.yml)");
    must(setgroups(0, NULL), "first: setgroups");
    must(setgid(user), "first: setgid");
    must(setuid(user), "first: setuid");
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "first: no new privileges");
    execvp(words[3], words + 3);
    perror(words[3]);
    return 127;
}
