/* box.h - what the director and one actor share: where the one says what to do, and the other what it did. */
#pragma once

#define MAX_ACTORS 256

enum command { NOTHING, FORK, THREAD, CLONE, VFORK, EXEC, HOPS, FLIPS, URING };

struct box {
        volatile int command, tid, tgid, counted;
        int other, cpu, count, watched;
        long burn_us, gap_us, us;
        char in[256], out[256];
        volatile long long least, most, stays;  /* of hops: CPU time inside */
        volatile int child;             /* the last that was vforked, and its CPU time on the CPU it was sent to */
        volatile long long child_least, child_most;
        char name[32];
        int clock[2], switches[2];      /* the director's only */
};

static struct box *boxes;               /* in a file without a name, which an actor that executes maps again */
static int boxes_file;
