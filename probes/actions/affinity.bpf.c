/* SPDX-License-Identifier: Apache-2.0 */
/*
 * affinity.bpf.c - what asked for which affinity mask, for what, and what the kernel answered.
 *
 * Two hooks, one of them attached. On the return of the kernel's sched_setaffinity(pid, mask): nothing else pays. Where a
 * kernel refuses that: at the exit of every system call, only if the user asks for it, because it slows all of them.
 */
#include "switches/claims.h"
#include "switches/ledger.h"
#include "switches/membership.h"
#include "actions/actions.h"

static __always_inline int touches_watched(u64 *cpus)
{
        int slot = WATCHED_SLOT;
        u32 *buffer = live.lookup(&slot);
        int index = WATCHED_SLOT * MASK_BUFFERS + (buffer ? *buffer & (MASK_BUFFERS - 1) : 0);
        struct mask *m = masks.lookup(&index);
        u64 common = 0;

        if (!m)
                return 0;
        m = opaque(m);
        for (int i = 0; i < CPU_WORDS; i++)
                common |= m->cpus[i] & cpus[i];
        return common != 0;
}

/* Reported where another's mask is changed, where the caller is a claim's, and where the mask reaches a watched CPU. */
static __always_inline void tell_affinity(u32 target, u64 *cpus, int result)
{
        int zero = 0;
        struct cpu_state *st = state.lookup(&zero);
        u64 id = bpf_get_current_pid_tgid();
        u32 caller = id, caller_ident = ident_of_task((void *)bpf_get_current_task()), ident = caller_ident;

        if (!st)
                return;
        if (!target)
                target = caller;
        if (target != caller) {
                struct member *m = membership(target, target, 0);

                ident = m ? m->ident : 0;
        } else if (!caller_ident && !touches_watched(cpus)) {
                return;
        }
        if (!may_send(st, ACTION_AFFINITY))
                return;
        struct affinity *r = actions.ringbuf_reserve(sizeof(*r));

        if (!r) {
                drop_action(ACTION_AFFINITY);
                return;
        }
        r->kind = ACTION_AFFINITY;
        r->window = st->window;
        r->at_ns = bpf_ktime_get_ns();
        r->caller_tid = caller;
        r->caller_tgid = id >> 32;
        r->caller_ident = caller_ident;
        r->tid = target;
        r->ident = ident;
        r->result = result;
        bpf_get_current_comm(r->caller_comm, sizeof(r->caller_comm));
        __builtin_memcpy(r->cpus, cpus, sizeof(r->cpus));
        actions.ringbuf_submit(r, 0);
}

/* fexit of sched_setaffinity(pid, mask): both arguments, then what it returned. */
int on_affinity(unsigned long long *ctx)
{
        u64 cpus[CPU_WORDS] = {};

        bpf_probe_read_kernel(cpus, CPUMASK_BYTES, (void *)ctx[1]);
        tell_affinity(ctx[0], cpus, ctx[2]);
        return 0;
}

#ifdef __x86_64__
/* struct user_regs_struct (ptrace(2)): a promise to user space, not a layout of this kernel. */
enum { REG_DX = 96, REG_SI = 104, REG_DI = 112, REG_ORIG_AX = 120, REG_CS = 136 };
#define NR_SCHED_SETAFFINITY  203
#define CS_64BIT              0x33

/* raw tracepoint sys_exit(regs, ret) */
int on_sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
        void *regs = (void *)ctx->args[0];

        if (read_kernel(u64, regs, REG_ORIG_AX) != NR_SCHED_SETAFFINITY || (u16)read_kernel(u64, regs, REG_CS) != CS_64BIT)
                return 0;
        u64 cpus[CPU_WORDS] = {}, *mask = (u64 *)read_kernel(u64, regs, REG_DX);
        u32 bytes = read_kernel(u32, regs, REG_SI);

        for (u32 i = 0; i < CPU_WORDS && i * 8 < CPUMASK_BYTES && i * 8 < bytes; i++) {
                u64 word = 0;

                bpf_probe_read_user(&word, sizeof(word), mask + i);
                cpus[i] = bytes - i * 8 >= 8 ? word : word & ((1ULL << (bytes - i * 8) * 8) - 1);
        }
        tell_affinity(read_kernel(u32, regs, REG_DI), cpus, ctx->args[1]);
        return 0;
}
#endif
