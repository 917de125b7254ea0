/* SPDX-License-Identifier: Apache-2.0 */
/*
 * masks.h - what on_task says of a thread of a claim: the single source for kernel and user space (probes/masks/records.py
 * mirrors it, a test compares what it says of real threads).
 *
 * Settings (-D): MASK_CPU_WORDS and MASK_NODE_WORDS, 64-bit words for the CPUs and memory nodes that this host may have.
 */
enum task_flags {                       /* of task_struct.flags, as the kernel has them */
        TASK_EXITING = 0x00000004,
        TASK_OF_KERNEL = 0x00200000,
};

struct task_masks {
        u32 ident;                      /* of the claim */
        u32 tid;
        u32 tgid;
        u32 policy;
        u32 flags;                      /* enum task_flags */
        u32 pad;
        char comm[16];
        u64 cpus[MASK_CPU_WORDS];
        u64 mems[MASK_NODE_WORDS];
};
