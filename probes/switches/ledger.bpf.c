/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.bpf.c - the switch ledger: every interval that a task ran on a CPU, judged in the kernel when it ends.
 *
 * sched_switch fires on the old stack: helpers describe *prev*, whose interval [last switch, now] ends. Only helper
 * functions and BTF offsets are used, no kernel struct from headers. Everything hot is in per-CPU arrays; hashes are
 * touched only where something is wrong, or somebody is on a watched CPU.
 *
 * Maps:
 *   state  per CPU: key 0, value struct cpu_state, 1 entry; cannot be full.
 *   rows   per CPU: key slot * 2 + window parity, value struct row, MAX_CLAIMS * 2 entries; cannot be full (a claim that finds
 *          no free slot is refused by user space).
 */
#include "switches/claims.h"
#include "switches/ledger.h"
#include "switches/membership.h"
#include "actions/actions.h"
#include "switches/arrivals.h"
#include "switches/pieces.h"
#include "switches/offences.h"
#include "switches/intruders.h"
#include "switches/renames.h"

/* One entry per CPU. */
BPF_PERCPU_ARRAY(state, struct cpu_state, 1);
/* Two windows side by side: slot * 2 + window parity. A closed window's rows stand still until the next one closes. */
BPF_PERCPU_ARRAY(rows, struct row, MAX_CLAIMS * 2);

/*
 * No tick of the sampler for so long, although somebody runs: the CPU stands still, in firmware, with interrupts off, or
 * because its hypervisor runs something else, which steal need not show. Who runs is charged all the same, and nobody
 * can be throttled in time. An idle CPU may do without ticks (a hypervisor parks it).
 */
static __always_inline u64 standstill(struct cpu_state *st, u64 now)
{
        u64 ns = now - st->charged_ns;

        if (ns <= SAMPLER_GAP_NS || !st->charged_ns || !(u32)bpf_get_current_pid_tgid())
                return 0;
        st->standstill_ns += ns;
        return ns;
}

static __always_inline void add_to_row(struct cpu_state *st, u32 slot, u64 now, u64 still, int ended, int tick)
{
        int index = slot * 2 + (st->window & 1);
        struct row *row = rows.lookup(&index);

        if (!row)
                return;
        row->switches += ended;
        row->ns += now - st->charged_ns;
        if (ended)
                row->idle_wakes += st->from_idle;
        row->samples += tick;
        row->standstill_ns += still;
}

/* The long way: which claim is its cgroup's, was it a member all the time, and may it be here? */
static __always_inline void look_up(struct cpu_state *st, u64 *note, u32 news, u64 now, u64 still, int ended, int tick)
{
        struct place_entry *e = current_place(&st->places, st->generation);
        u64 word = note ? *note : 0, key = NOTE_KEY(e->tag, news);
        struct span s = { .from = st->charged_ns, .now = now, .start = st->start_ns, .still = still };

        s.ended = ended;
        s.tick = tick;
        s.life = life_of_note(word);
        if (!(word & NOTE_DEAD) && KEY_OF_NOTE(word) != key && unsettled(st, e, note, key, &s))
                return;
        if (e->place == PLACE_FREE || e->place == PLACE_INSIDE) {
                struct mark *mark = &st->marks[e->tag & (MARKS - 1)];

                mark->key = key;
                mark->place = e->place;
                mark->slot = e->slot;
        } else if (e->place == PLACE_WATCHED) {
                begin_at_arrival(st, &s);
                watched(st, e, &s);
        } else {
                int index = e->slot * 2 + (st->window & 1);
                struct row *row = rows.lookup(&index);

                begin_at_arrival(st, &s);
                if (row)
                        outside(st, row, e, &s);
        }
        if (e->place == PLACE_INSIDE || e->place == PLACE_OUTSIDE)
                add_to_row(st, e->slot, now, still, ended, tick);
}

/*
 * Count the running interval up to now. Written for registers: a task where nothing is wrong and nothing happened costs a
 * few compares. Returns its thread id.
 */
static __always_inline u32 charge(struct cpu_state *st, u64 now, int ended, int tick)
{
        u32 tid = bpf_get_current_pid_tgid();
        u64 still = standstill(st, now);
        int zero = 0;
        u64 *note = note_of(tid);
        struct config *c = config.lookup(&zero);
        /* Read before the cgroup is asked for: a move in between makes the note that we write stale, never good. */
        u32 news = c ? *(volatile u32 *)&c->news : 0;
        u64 key = note ? KEY_OF_NOTE(*note) : 0;
        struct mark *mark = &st->marks[key & (MARKS - 1)];

        /* A tick always goes the long way: what it finds is true even where a word was missed. */
        if (tick || mark->key != key || key >> 32 != news)
                look_up(st, note, news, now, still, ended, tick);
        else if (mark->place == PLACE_INSIDE)
                add_to_row(st, mark->slot, now, still, ended, tick);
        st->charged_ns = now;
        return tid;
}

static __always_inline struct cpu_state *my_state(void)
{
        int zero = 0;

        return state.lookup(&zero);
}

int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
        u64 now = bpf_ktime_get_ns();
        struct cpu_state *st = my_state();

        if (!st)
                return 0;
        /* Interrupts are off here, so that no tick can come in the middle: `busy` is for the programs below. */
        st->judged++;
        compare_clocks(st, now, (void *)ctx->args[2]);
        st->from_idle = !charge(st, now, 1, 0);
        st->start_ns = now;
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
        charge(st, now, 0, 1);
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
                /* Who runs it on its own CPU sends itself no interrupt: a tick may come, and would count twice. */
                *(volatile u32 *)&st->busy = 1;
                u64 now = bpf_ktime_get_ns();

                charge(st, now, 0, 0);
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

int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();

        if (st)
                handle_fork(st, (void *)ctx->args[0], (void *)ctx->args[1]);
        return 0;
}

int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();

        if (st) {
                *(volatile u32 *)&st->busy = 1;
                charge(st, bpf_ktime_get_ns(), 0, 0);   /* while its record says where it was */
                *(volatile u32 *)&st->busy = 0;
        }
        handle_exit((void *)ctx->args[0]);
        return 0;
}

int on_rename(struct bpf_raw_tracepoint_args *ctx)
{
        handle_rename((void *)ctx->args[0], (void *)ctx->args[1]);
        return 0;
}
