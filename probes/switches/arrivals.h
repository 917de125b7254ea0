/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrivals.h - when did the running task really come onto this CPU?
 *
 * Some hosts hide threads of a supervisor from the tracepoint: the switch to such a thread, and the switch from it to
 * the next task, are not reported, so that its time would be counted as that task's. The scheduler's own word of the task's
 * last arrival (sched_info.last_arrival) says otherwise, by a clock of its own. __schedule() reads that clock into
 * rq->clock just before the tracepoint, so a switch shows how far it is from ours: too far by what came between the two
 * readings (a microsecond; rarely an interrupt, or a vCPU that sleeps), never too near. The least of the latest is taken.
 *
 * An interval whose task arrived after the last switch that was reported begins with its arrival: what lies before it is a
 * hidden thread's. (Also of what the task itself ran before, where not even the switch from it to that thread was reported;
 * what it may be is in `arrival_lag_ns`, for the cgroup's account has it.) What lies between an arrival and the switch
 * after it is summed up for all (`lag_of`). The clocks are compared every 8 ms.
 *
 * Maps:
 *   differences  per CPU: key 0, value struct differences, 1 entry; the oldest difference gives way, cannot be full.
 */
#define DIFFERENCES     8
#define COMPARE_SHIFT   23              /* once in 2^23 ns, if there is a switch */
#define TOGETHER_NS     1000000000ULL   /* the clocks drift: 50 ppm are 50 us in so much time, which is LATE_NS */
#define LATE_NS         50000           /* the scheduler reads its clock before we read ours: microseconds */

struct differences {
        s64 of[DIFFERENCES];
        u64 at_ns[DIFFERENCES];
        u64 asked;
};

/* One entry per CPU. */
BPF_PERCPU_ARRAY(differences, struct differences, 1);

/*
 * Where a kernel keeps no arrivals, or has no groups of tasks, the clocks are never compared: compared_ns stays 0, and the
 * word of the tracepoint must do. `read`: read_kernel, or loaded for a task that the tracepoint gave us.
 */
#ifdef OFF_RQ_CLOCK
#define KEEPS_ARRIVALS  1
#define sched_info_of(read, task, member) read(u64, task, OFF_TASK_STRUCT_SCHED_INFO + OFF_SCHED_INFO_##member)
#else
#define KEEPS_ARRIVALS  0
#define sched_info_of(read, task, member) 0
#endif

#define arrival_of(task) sched_info_of(loaded, task, LAST_ARRIVAL)
#define queued_of(task) sched_info_of(loaded, task, LAST_QUEUED)

static __always_inline u64 last_arrival(void)
{
        return sched_info_of(read_kernel, bpf_get_current_task(), LAST_ARRIVAL);
}

/* By the runqueue of the task's group on this CPU, which every task has, whatever its class. */
static __always_inline u64 scheduler_clock(void)
{
#if KEEPS_ARRIVALS
        void *cfs_rq = read_kernel(void *, bpf_get_current_task(), OFF_TASK_STRUCT_SE + OFF_SCHED_ENTITY_CFS_RQ);

        return read_kernel(u64, read_kernel(void *, cfs_rq, OFF_CFS_RQ_RQ), OFF_RQ_CLOCK);
#else
        return 0;
#endif
}

static __always_inline int clocks_due(struct cpu_state *st, u64 now)
{
        return KEEPS_ARRIVALS && now >= st->next_compare_ns;
}

/*
 * Two switches in a row: one of them may be a wake-up's, where the clock is old; after it the task goes, where it is not,
 * unless to the idle task, before which the kernel may look for work on other CPUs, tens of microseconds. The least of
 * four such pairs is good.
 */
static __always_inline void compare_clocks(struct cpu_state *st, u64 now)
{
        int zero = 0;
        s64 least = ~0ULL >> 1;
        u64 clock;
        struct differences *d;

        if (!clocks_due(st, now))
                return;
        st->next_compare_ns = ((now >> COMPARE_SHIFT) + 1) << COMPARE_SHIFT;
        d = differences.lookup(&zero);
        clock = scheduler_clock();
        if (!d || !clock)
                return;
        d = opaque(d);
        u64 i = d->asked++ & (DIFFERENCES - 1);

        if (d->asked & 1)
                st->next_compare_ns = now;
        d->of[i] = now - clock;
        d->at_ns[i] = now;
#pragma clang loop unroll(full)
        for (int i = 0; i < DIFFERENCES; i++)
                if (now - d->at_ns[i] <= TOGETHER_NS && d->of[i] < least)
                        least = d->of[i];
        st->clock_difference = least;
        st->compared_ns = now;
}

/*
 * How long before the switch the scheduler let the task arrive that is switched out now. Where a wake-up has the next task
 * chosen, its clock is that of the wake-up: the task pays for the way out of idle, or for what is left of an interrupt, and
 * what ran until then does not. The ledger is right in both, and the cgroups' accounts differ from it by so much.
 *
 * A task that is preempted on its way to sleep, when its state is no longer TASK_RUNNING, comes back without another
 * arrival (sched_info_depart(), sched_info_arrive()): what it has is older than the stay of the task before it.
 */
#define LAG_NS          500             /* as far as the two clocks are apart at any switch, and a little more */

static __always_inline u64 lag_of(struct cpu_state *st, u64 came_ns)
{
        u64 lag = st->start_ns - came_ns;

        /* Where the task came later than the last switch that was reported, this is a very great number. */
        return lag - LAG_NS < TOGETHER_NS && lag <= st->start_ns - st->before_start_ns && st->compared_ns ? lag : 0;
}

/* An arrival by our clock. */
static __always_inline u64 by_our_clock(struct cpu_state *st, u64 arrival)
{
        return arrival + st->clock_difference;
}

/* Whether switches were not reported: the task came later than what is counted so far says. */
static __always_inline int is_late(struct cpu_state *st, u64 came_ns)
{
        return (s64)(came_ns - st->charged_ns) > LATE_NS && st->compared_ns;
}

/* Begin the interval when its task arrived, if switches were not reported before that. */
static __always_inline void begin_at_arrival(struct cpu_state *st, struct span *s)
{
        u64 arrival, came_ns;

        if (s->now - s->from <= LATE_NS)
                return;
        arrival = last_arrival();
        came_ns = by_our_clock(st, arrival);
        if (!arrival || !is_late(st, came_ns) || came_ns >= s->now)
                return;                 /* the usual case, or another arrival than this interval's */
        /* The last switch that was reported led to this very task: it ran, and nothing said that it went. */
        if (st->next == bpf_get_current_task())
                s->lag = came_ns - s->from;
        s->from = s->start = st->start_ns = st->charged_ns = came_ns;
        s->still = 0;                   /* the CPU ran what nothing reported, and did not stand still */
}
