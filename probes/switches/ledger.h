/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - the records of the switch ledger: the single source for kernel and user space (probes/switches/records.py mirrors
 * them, a test compares both). All times are CLOCK_MONOTONIC nanoseconds.
 */

/* One claim on one CPU in one window. */
struct row {
        u64 switches;                   /* intervals that ended */
        u64 ns;
        u64 slotted_ns;                 /* of ns: what is in `spreads` already; what is not was run in this slot */
        u64 slot;
        u64 idle_wakes;                 /* intervals that ended and had begun on an idle CPU */
        u64 arrival_lag_ns;             /* how long before the switches to its tasks the scheduler let them arrive, */
        u64 departure_lag_ns;           /* and those that came after them (arrivals.h) */
        u64 wait_ns;                    /* how long its tasks were runnable and waited here before these intervals (waits.h) */
        u64 out_switches;               /* intervals outside, each counted once, also if it still runs */
        u64 out_ns;
        u64 out_longest_ns;
        u64 transition_switches;
        u64 transition_ns;
        u64 samples;                    /* ticks of the CPU-clock sampler that hit the claim */
        u64 out_samples;
        u64 details;                    /* detail records sent */
        u64 standstill_ns;              /* of ns: pieces in which the CPU's sampler did not come when it should have */
        u64 slotted_wait_ns;            /* of wait_ns: what is in `bins` already */
        u64 migrations;                 /* of its tasks, moved to another CPU by what ran on this one */
};

/*
 * One claim on one CPU by slots of time: what it ran and what it waited for, where that ended. A slot's entry is at its number
 * modulo BINS, and gives way to the slot that is BINS later.
 */
struct bin {
        u32 slot;
        u32 run_ns;                     /* ends at its greatest number */
        u32 wait_ns;
};

struct bins {
        struct bin of[BINS];
};

/*
 * A claim's CPU time in one window by slots, all CPUs together, at the number of the slot modulo SLOTS: it only grows, so
 * what an entry had when nothing wrote to it any more is what the next slot at this place begins with.
 */
#define SLOTS 128

struct spread {
        u64 ns[SLOTS];
};

/* Key of `offenders`; by CPU, so that one CPU alone writes an entry. */
struct offence_key {
        u32 epoch;                      /* this CPU's window << 8 | config.epoch */
        u32 ident;                      /* of the claim: unlike its slot it is never used again */
        u32 tid;
        u32 cpu;
        u32 life;                       /* how many tasks had the thread id before, modulo 256 */
        u32 pad;
};

struct offence {
        u64 switches;
        u64 ns;
        u64 longest_ns;
        u64 first_ns;                   /* begin of the first interval */
        u64 last_ns;                    /* end of the last one so far */
        u64 longest_end_ns;
        u32 tgid;
        u32 pad;
        char comm[16];
};

struct intruder_key {
        u32 epoch;
        u32 cpu;
        u32 tid;
        u32 life;
        u64 cgroup;
        u32 origin;                     /* ident that it left without ending, or what bore it did (membership.h); 0: none */
        u32 left;                       /* what left, with LEFT_VISIT */
};

/* A task without a claim on a watched CPU. */
struct intruder {
        u64 switches;
        u64 ns;
        u64 longest_ns;
        u64 first_ns;
        u64 last_ns;
        u64 longest_end_ns;
        u32 tgid;
        u32 flags;                      /* task_struct.flags: PF_KTHREAD, PF_NO_SETAFFINITY */
        u32 nr_cpus_allowed;
        u32 ident;                      /* whose it is by its cgroup all the same: PODS_IDENT, or a claim's by v1 alone */
        char comm[16];
};

/* Waits of a claim's tasks on one CPU that lasted TOLD_NS or longer; the time of all of them is in its row. */
struct wait_key {
        u32 epoch;                      /* as in struct offence_key */
        u32 ident;
        u32 cpu;
        u32 pad;
};

#define WAIT_BUCKETS  20                /* from 16 us on, each twice as long as the one before; the last has no end */

struct wait_sums {
        u64 woken_ns;                   /* of tasks that had slept, or came from another CPU */
        u64 preempted_ns;               /* of tasks that were taken off this CPU while they were runnable */
        u64 throttled_ns;               /* of both: the claim, or a cgroup above it, was throttled here */
        u64 unnamed_ns;                 /* of both: what ran meanwhile is not among the culprits */
        u64 longest_ns;
        u64 longest_end_ns;
        u32 woken[WAIT_BUCKETS];
        u32 preempted[WAIT_BUCKETS];
};

/* What ran on the CPU while a claim's task waited there. */
enum culprit_kind {
        CULPRIT_IDLE = 1,               /* nothing: the task was on its way, or held back */
        CULPRIT_THROTTLED,              /* the claim's tasks were not allowed to run */
        CULPRIT_CLAIM,                  /* of: its ident */
        CULPRIT_POD,                    /* of: id of its cgroup, 0 where that task has ended */
        CULPRIT_KTHREAD,                /* by name */
        CULPRIT_SYSTEM,                 /* by name */
        CULPRIT_ENDED,                  /* a task without a claim that has ended since */
};

struct culprit_key {
        u32 epoch;
        u32 ident;                      /* of what waited */
        u32 cpu;
        u32 kind;
        u64 of;
        char comm[16];
};

struct culprit {
        u64 ns;
        u64 count;                      /* turns that it had meanwhile */
        u64 longest_ns;
        u32 tgid;
        u32 pad;
};

/* Until when the cgroup of a claim's task was throttled on a CPU, as far as a wait has told. */
struct throttle_key {
        u32 ident;
        u32 cpu;
};

struct throttle {
        u64 cfs_rq;
        u64 seen_ns;                    /* the kernel's account of it, at the last wait that was told */
        u64 from_ns;
        u64 until_ns;
};

/* The first word of every record in the ring `events`. */
enum event_kind { EVENT_OUTSIDE = 1, EVENT_PIECE, EVENT_MOVE, EVENT_COMPLETE, EVENT_ENDED };

/* One of the first few violations, for a live report. */
struct detail {
        u32 kind;
        u32 window;
        u64 start_ns;
        u64 end_ns;                     /* so far: the interval may still be running */
        u32 ident;
        u32 tid;
        u32 tgid;
        u32 cpu;
        char comm[16];
};

/*
 * A member was moved in, out or between claims (EVENT_MOVE), came into its v1 cpuset (EVENT_COMPLETE), or exits between the
 * two (EVENT_ENDED).
 */
struct move_event {
        u32 kind;
        u32 whole_process;
        u64 at_ns;                      /* the kernel has moved all threads */
        u64 begun_ns;                   /* before it moved the first one; 0: not known, or a completion */
        u64 joined_ns;                  /* when to_ident's identity was joined */
        u64 cgroup;                     /* where to */
        u32 tid;
        u32 tgid;
        u32 life;                       /* of the thread id, or of the process's */
        u32 from_ident;
        u32 to_ident;
        u32 incomplete;                 /* the v1 cpuset may follow */
        u32 origin;                     /* as in struct member */
        u32 left;
        u32 writer_tgid;                /* what moved it, and the claim that this one is under by now */
        u32 writer_ident;
};

enum piece_flags {
        PIECE_ENDED = 1,                /* the task was switched out */
        PIECE_TICK = 2,
        PIECE_FROM_IDLE = 4,            /* the interval began on an idle CPU */
        PIECE_COUNTED = 8,              /* the stay has been counted as one outside before */
        PIECE_MEMBER = 16,              /* there was a record: member_* say what it said */
        PIECE_INCOMPLETE = 32,          /* and its cpuset may still follow */
        PIECE_UNANNOUNCED = 64,         /* the thread has no record of its own: its leader's of before it counts */
        PIECE_OVERLOOKED = 128,         /* it exits, outside the claim's v1 cpuset: its process joined that without it */
};

/* An interval, or what ran of it, in which the task was moved, or of which the kernel has not said where it was. */
struct piece {
        u32 kind;
        u32 window;
        u64 from_ns;
        u64 now_ns;
        u64 start_ns;                   /* the stay began */
        u64 cgroup;                     /* the task's at now_ns */
        u64 member_ns;                  /* the record's time */
        u64 joined_ns;
        u64 standstill_ns;
        u32 tid;
        u32 tgid;
        u32 cpu;
        u32 life;
        u32 tgid_life;
        u32 member_ident;
        u32 member_origin;
        u32 member_left;
        u32 cgroup_ident;               /* of the claim that `cgroup` is under */
        u32 task_flags;
        u32 nr_cpus_allowed;
        u32 flags;                      /* enum piece_flags */
        char comm[16];
};

/* Which task had a CPU until when: from where the turn before it ended. */
struct turn {
        u64 end_ns;
        u64 task;                       /* its address: it may have ended since, and another have it */
        u32 tid;
        u32 tag;
};

#define TURNS         32                /* power of two */

/* What a wait is told with: beside its callers' there is no room for it on the stack (512 bytes for both). */
struct blaming {
        u32 me;                         /* the thread that waited */
        u32 preempted;                  /* by others, while it was runnable */
        u64 held_ns;                    /* of the wait: throttled */
        u64 unnamed_ns;                 /* of the wait: what had it did not fit into the map */
        u64 word;                       /* of a struct of the kernel's */
        u64 from_ns;                    /* of the wait */
        u64 until_ns;
        u64 rest_ns;                    /* what has been named begins there */
        struct wait_key wait;
        struct throttle_key here;
        struct culprit_key whose;
        struct culprit fresh;
        struct throttle held;
        struct throttle first;
};

/* The running interval [from, now], and what caused us to look at it. */
struct span {
        u64 from;
        u64 now;
        u64 start;
        u64 still;
        u32 ended;
        u32 tick;
        u32 life;
        u32 pad;
        u64 lag;                        /* the cgroup has it, the ledger has not */
};

/* What a CPU's programs keep for themselves. Only this CPU writes; programs on it do not interrupt each other. */
struct cpu_state {
        u64 start_ns;                   /* the running interval began */
        u64 charged_ns;                 /* and is counted up to here */
        u64 judged;                     /* switches in this window */
        u64 next_compare_ns;            /* from when on the clocks are to be compared again (arrivals.h) */
        u32 generation;                 /* of the answers in `places` that are good; the first line is the hot one */
        u32 window;
        u32 from_idle;                  /* the running interval began on an idle CPU */
        u32 before;                     /* slot + 1 of the claim whose interval ended then; 0: of none */
        u32 busy;                       /* a split is under way in process context: the tick must not interfere */
        u32 slot;                       /* the number of the present slot, and when it ends */
        u64 slot_end_ns;
        u64 ticks;
        u64 opened_ns;                  /* this CPU's window began */
        u64 closed_ns;                  /* the last closed window: its end and its counters */
        u64 closed_judged;
        u64 closed_ticks;
        u64 closed_opened_ns;
        u64 lost_events;                /* ring buffer full; since the programs were loaded */
        u64 map_full;                   /* an entry could not be made; since the programs were loaded */
        u64 counted_start_ns;           /* the interval that `counted` is about */
        u32 counted;                    /* bits of enum counted: classes in which it has been counted */
        u32 closed_window;
        u64 standstill_ns;              /* no tick of the sampler came when it was due; since the programs were loaded */
        u64 stay_ns;                    /* what runs now has been dealt with up to here by a piece */
        s64 clock_difference;           /* of our clock and the scheduler's (arrivals.h) */
        u64 compared_ns;                /* when that was found; 0: it is not known */
        u64 before_start_ns;            /* the interval before the running one began */
        u64 next;                       /* the task (its address) that the last switch led to */
        u64 queued_ns;                  /* since when that one had been runnable, by the scheduler's clock; 0: not known */
        u64 wait_end_ns;                /* when the wait that is being told ended */
        u64 turn;                       /* how many turns there were */
        struct mark marks[MARKS];
        struct place_cache places;
        struct turn turns[TURNS];
        struct blaming blaming;
        struct span span;               /* of the interval that is looked up */
};

enum counted { COUNTED_OUTSIDE = 1, COUNTED_TRANSITION = 2, COUNTED_INTRUDER = 4 };

/* Commands to on_control, run by BPF_PROG_TEST_RUN; arguments follow as u64. */
enum control { CONTROL_SPLIT = 1, CONTROL_WINDOW, CONTROL_LIVE, CONTROL_FLUSH, CONTROL_EPOCH, CONTROL_RENEW };
