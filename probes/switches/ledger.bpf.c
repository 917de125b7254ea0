/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.bpf.c - the switch ledger: every interval that a task ran on a CPU, judged in the kernel when it ends.
 *
 * sched_switch fires on the old stack: helpers describe *prev*, whose interval [last switch, now] ends. Only helper
 * functions and BTF offsets are used, no kernel struct from headers. Everything hot is in per-CPU arrays; hashes are
 * touched only where something is wrong, or something is on a watched CPU.
 *
 * Maps:
 *   state  per CPU: key 0, value struct cpu_state, 1 entry; cannot be full.
 */
#include "switches/claims.h"
#include "switches/ledger.h"

/* One entry per CPU. */
BPF_PERCPU_ARRAY(state, struct cpu_state, 1);

static __always_inline struct cpu_state *my_state(void)
{
        int zero = 0;

        return state.lookup(&zero);
}

#include "switches/membership.h"
#include "actions/actions.h"
#include "switches/arrivals.h"
#include "switches/pieces.h"
#include "switches/offences.h"
#include "switches/intruders.h"
#include "switches/waits.h"
#include "switches/culprits.h"
#include "switches/intervals.h"
#include "switches/renames.h"

#define NEVER   (1ULL << 32)            /* no number of news */
#define likely(condition)  __builtin_expect(!!(condition), 1)
#define rare(condition)    __builtin_expect(!!(condition), 0)

/* The turn of the task that goes ends, and the next one's begins. `note`: what is known of the one that goes. */
static __always_inline void lead_on(struct cpu_state *st, struct bpf_raw_tracepoint_args *ctx, u64 now, u32 tid, u64 note)
{
        st->from_idle = !tid;
        st->before_start_ns = st->start_ns;
        st->charged_ns = st->start_ns = now;
        st->next = ctx->args[2];
        st->queued_ns = queued_of(ctx->args[2]);
        end_turn(st, now, ctx->args[1], tid, note & NOTE_TAG);
}

/*
 * A task where nothing is wrong and nothing happened costs a few compares, and the clock. This path is one piece of code
 * without a helper but the clock: instructions are cold at a switch. What it needs is fetched before the clock is read,
 * which waits until all loads before it are done, those of the scheduler too. News are read after it: what they say must
 * be true up to then. All else goes the long way, with what is due now and then. Interrupts are off here, so that no tick
 * can come in the middle: `busy` is for the programs below.
 */
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();
        int zero = 0;
        struct config *c = config.lookup(&zero);
        u32 tid = loaded(u32, ctx->args[1], OFF_TASK_STRUCT_PID);
        u64 arrival = arrival_of(ctx->args[1]);
        u64 *note = note_of(tid);

        if (rare(!st || !c))
                return 0;
        st = opaque(st);
        u64 key = note ? KEY_OF_NOTE(*note) : 0, known = NEVER;
        struct mark *mark = &st->marks[key & (MARKS - 1)];
        struct row *row = 0;

        if (likely(mark->key == key)) {
                known = key >> 32;
                row = row_of_mark(st, mark);
        }
        u64 now = bpf_ktime_get_ns(), ns = now - st->charged_ns, came_ns = by_our_clock(st, arrival);
        u64 lag = lag_of(st, came_ns), waited = wait_of(st, (u64)ctx->args[1], arrival);
        /* And before the cgroup is asked for: a move in between makes the note that we write stale, never good. */
        u32 news = *(volatile u32 *)&c->news;

        st->judged++;
        if (likely(known == news && ns <= SAMPLER_GAP_NS && !clocks_due(st, now) && !is_late(st, came_ns))) {
                if (row) {
                        add_to_row(st, row, mark->slot, now, 0, 1, 0);
                        row->wait_ns += waited;
                }
                if (rare(lag))
                        add_lag(st, row, lag);
                st->before = row ? mark->slot + 1 : 0;
                lead_on(st, ctx, now, tid, key);
                if (row)
                        tell_long_wait(st, mark->slot, waited, st->before_start_ns);
                return 0;
        }
        u32 slot = 0;

        compare_clocks(st, now);
        row = row_looked_up(st, news, now, standstill(st, ns, tid), 1, 0, &slot);
        if (lag)
                add_lag(st, row, lag);
        st->before = row ? slot + 1 : 0;
        lead_on(st, ctx, now, tid, note ? *note : 0);
        if (row) {
                row->wait_ns += waited;
                tell_long_wait(st, slot, waited, st->before_start_ns);
        }
        return 0;
}

/* The CPU clock: a task that never switches is seen within one period. */
int on_tick(struct bpf_perf_event_data *ctx)
{
        struct cpu_state *st = my_state();

        if (!st || st->busy)
                return 0;
        u64 now = bpf_ktime_get_ns();

        st->ticks++;
        charge(st, now, 1);
        return 0;
}

/* Never attached: user space runs it, on a CPU of its choice, where `current` is the task that it interrupts. */
int on_control(struct bpf_raw_tracepoint_args *ctx)
{
        u64 command = ctx->args[0], value = ctx->args[1];
        struct cpu_state *st = my_state();
        int zero = 0, slot = ctx->args[1];
        struct config *c = config.lookup(&zero);

        if (!st || !c)
                return -1;
        if (command == CONTROL_SPLIT || command == CONTROL_WINDOW) {
                /* What runs it on its own CPU sends itself no interrupt: a tick may come, and would count twice. */
                *(volatile u32 *)&st->busy = 1;
                u64 now = bpf_ktime_get_ns();

                charge(st, now, 0);
                if (command == CONTROL_WINDOW && st->window != (u32)value) {
                        /* Kept beside the new window's: user space reads them when every CPU has turned over. */
                        st->closed_window = st->window;
                        st->closed_opened_ns = st->opened_ns;
                        st->closed_ns = now;
                        st->closed_judged = st->judged;
                        st->closed_ticks = st->ticks;
                        st->judged = st->ticks = 0;
                        st->opened_ns = now;
                        st->counted = 0;        /* an interval that runs on is one of the new window, too */
                        st->window = value;
                }
                *(volatile u32 *)&st->busy = 0;
        } else if (command == CONTROL_LIVE) {
                u32 *buffer = live.lookup(&slot);

                if (!buffer)
                        return -1;
                *(volatile u32 *)buffer = ctx->args[2];
        } else if (command == CONTROL_FLUSH) {
                st->generation++;
        } else if (command == CONTROL_RENEW) {
                count_news();
        } else if (command == CONTROL_EPOCH) {
                *(volatile u32 *)&c->epoch = value;
        }
        return 0;
}

int on_attach(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();

        if (!st)
                return 0;
        tell_move(st, (void *)ctx->args[0], (void *)ctx->args[1], (void *)ctx->args[2], ctx->args[3] & 1);
        handle_attach(st, (void *)ctx->args[0], (void *)ctx->args[2], ctx->args[3] & 1);
        return 0;
}

/* fentry and fexit of cgroup_attach_task(): in the task that writes, with what on_attach sees in between. */
int on_attach_begin(unsigned long long *ctx)
{
        u32 writer = bpf_get_current_pid_tgid();
        u64 now = bpf_ktime_get_ns();

        attaching.update(&writer, &now);
        return 0;
}

int on_attach_end(unsigned long long *ctx)
{
        u32 writer = bpf_get_current_pid_tgid();

        attaching.delete(&writer);
        return 0;
}

int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();

        if (!st)
                return 0;
        void *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
        u32 from = handle_fork(st, parent, child);

        if (from)
                tell_birth(st, child, from);
        return 0;
}

int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();

        if (st) {
                *(volatile u32 *)&st->busy = 1;
                charge(st, bpf_ktime_get_ns(), 0);   /* while its record says where it was */
                *(volatile u32 *)&st->busy = 0;
                handle_exit(st, (void *)ctx->args[0]);
        }
        return 0;
}

/* raw tracepoint sched_migrate_task(task, cpu): on the CPU of what moves it, with interrupts off. */
int on_migrate(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();
        u64 *note = note_of(read_kernel(u32, (void *)ctx->args[0], OFF_TASK_STRUCT_PID));
        u32 tag = note ? *note & NOTE_TAG : 0;
        struct row *row = st && tag >= TAG_OF(0) ? row_of(st, tag - TAG_OF(0)) : 0;

        if (row)
                row->migrations++;
        return 0;
}

int on_rename(struct bpf_raw_tracepoint_args *ctx)
{
        handle_rename((void *)ctx->args[0], (void *)ctx->args[1]);
        return 0;
}
