/*
 * arrivals.h - when did the running task really come onto this CPU?
 *
 * Some hosts hide threads of a supervisor from the tracepoint: the switch to such a thread, and the switch from it to
 * the next task, are not told, so that its time would be counted as that task's. The scheduler's own word of the task's
 * last arrival (sched_info.last_arrival) says otherwise, by a clock of its own. How far that clock is from ours is
 * asked at each tick of the sampler; a hidden thread in between makes a difference too small, a CPU that stands still
 * too large. The second smallest of eight is right unless two are too small or seven too large.
 *
 * Asked only where a task is where it must not be, or was moved.
 */
/* The running interval [from, now], and what caused us to look at it. */
struct span {
        u64 from;
        u64 now;
        u64 start;
        u64 still;
        u32 ended;
        u32 tick;
        u32 life;
};

#define DIFFERENCES   8
#define ASK_WITHIN_NS 1000000000ULL     /* the clocks drift: 50 ppm are 50 us in so much time */
#define LATE_NS       50000             /* the scheduler reads its clock before we read ours: microseconds */

struct differences {
        s64 of[DIFFERENCES];
        u64 latest_ns;
        u64 asked;
};

/* One entry per CPU. */
BPF_PERCPU_ARRAY(differences, struct differences, 1);

static __always_inline u64 last_arrival(void)
{
#ifdef OFF_TASK_STRUCT_SCHED_INFO
        return read_kernel(u64, bpf_get_current_task(), OFF_TASK_STRUCT_SCHED_INFO + OFF_SCHED_INFO_LAST_ARRIVAL);
#else
        return 0;
#endif
}

/* At a tick: the current task came at st->start_ns. */
static __always_inline void compare_clocks(struct cpu_state *st, u64 now)
{
        int zero = 0;
        struct differences *d = differences.lookup(&zero);
        s64 least = ~0ULL >> 1, second = least;
        u64 arrival = last_arrival();

        if (!d || !arrival || !st->start_ns)    /* the idle task never arrives */
                return;
        /* The second smallest is no larger than the larger one of the latest two: it is as old as the older of these. */
        u64 before = d->latest_ns;

        d->of[d->asked++ & (DIFFERENCES - 1)] = st->start_ns - arrival;
        d->latest_ns = now;
        if (d->asked < DIFFERENCES)
                return;
#pragma clang loop unroll(full)
        for (int i = 0; i < DIFFERENCES; i++) {
                s64 one = d->of[i];

                if (one < least) {
                        second = least;
                        least = one;
                } else if (one < second) {
                        second = one;
                }
        }
        st->clock_difference = second;
        st->compared_ns = before;
}

/* Begin the interval when its task arrived, if switches were not told before that. */
static __always_inline void begin_at_arrival(struct cpu_state *st, struct span *s)
{
        u64 arrival;

        if (s->now - s->from <= LATE_NS || s->now - st->compared_ns > ASK_WITHIN_NS)
                return;
        arrival = last_arrival();
        if (!arrival)
                return;
        arrival += st->clock_difference;
        if (arrival <= s->from + LATE_NS || arrival >= s->now)
                return;
        s->from = s->start = st->start_ns = arrival;
        s->still = 0;
}
