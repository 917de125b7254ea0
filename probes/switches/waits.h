/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.h - how long was a claim's task runnable before it ran, and which tasks had the CPU in turn?
 *
 * The scheduler keeps when a task was queued on its CPU (sched_info.last_queued), until it arrives there; at a switch the next
 * task's is still set (__schedule() calls the tracepoint before sched_info_arrive()). It is kept until that task's own
 * interval ends: then the claim is known, and the arrival too, so that the wait is the very difference that the kernel adds
 * to the task's run_delay. A task that was moved to another CPU while it waited is queued anew there: what it waited for
 * before is not counted.
 *
 * Each wait goes to the row of its claim, which is at hand. One of TOLD_NS or longer is told (culprits.h; before Linux 6.1
 * none is: how long its verifier takes for that is not known). What ran
 * meanwhile stands in the last TURNS turns of this CPU.
 */
#define TOLD_NS        16000
#define WAIT_BITS      48              /* of a wait, behind the slot of its claim: three days */

/* How long what runs now had waited, which arrived then by the scheduler's clock; 0: not known, or counted already. */
static __always_inline u64 wait_of(struct cpu_state *st, u64 task, u64 arrival)
{
        u64 queued = st->queued_ns;

        return queued && st->next == task && arrival > queued ? arrival - queued : 0;
}

static __always_inline void end_turn(struct cpu_state *st, u64 now, u64 task, u32 tid, u32 tag)
{
        struct turn *t = &st->turns[st->turn++ & (TURNS - 1)];

        t->end_ns = now;
        t->task = task;
        t->tid = tid;
        t->tag = tag;
}

/* `end`: when it began to run. */
static __always_inline void tell_long_wait(struct cpu_state *st, u32 slot, u64 waited, u64 end)
{
#ifdef TELLS_WAITS
        if (waited < TOLD_NS)
                return;
        st->wait_end_ns = end;
        tell_wait((u64)slot << WAIT_BITS | (waited & ((1ULL << WAIT_BITS) - 1)));
#endif
}

/* The wait of a task that is running still, once. A tick leaves it to the switch or the window's end: each caller costs. */
static __always_inline void count_wait_now(struct cpu_state *st, struct row *row, u32 slot)
{
        u64 waited;

        if (!st->queued_ns)
                return;
        waited = wait_of(st, bpf_get_current_task(), last_arrival());
        st->queued_ns = 0;
        row->wait_ns += waited;
        tell_long_wait(st, slot, waited, st->start_ns);
}
