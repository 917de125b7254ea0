/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writes.bpf.c - what wrote which value to a control file of a watched cgroup, and what the kernel answered.
 *
 * Two hooks, one of them attached. On the return of cgroup_file_write(of, buf, nbytes, off), through which every write to
 * a file of every cgroup goes, v1 and v2: nothing else pays. By then the controller's own code has read the value, and
 * at the most cut the white space behind it. Where a kernel refuses that: at the exit of every system call, only if the
 * user asks for it, because it slows all of them; there write, pwrite64 and writev are looked at.
 */
#include "switches/claims.h"
#include "switches/ledger.h"
#include "writes/writes.h"

#ifdef OFF_KERNFS_NODE_PARENT

struct asked {
        void *buf;
        u64 bytes;
        s64 result;
        u32 in_user;                    /* where `buf` is */
};

static __always_inline void fill_write(struct control_write *r, struct asked *a)
{
        u64 id = bpf_get_current_pid_tgid();
        u32 kept = a->bytes < WRITE_VALUE_BYTES ? a->bytes : WRITE_VALUE_BYTES - 1;

        r->at_ns = bpf_ktime_get_ns();
        r->result = a->result;
        r->tid = id;
        r->tgid = id >> 32;
        r->bytes = a->bytes;
        bpf_get_current_comm(r->comm, sizeof(r->comm));
        __builtin_memset(r->value, 0, sizeof(r->value));
        kept = opaque(kept) & (WRITE_VALUE_BYTES - 1);
        if (a->in_user)
                bpf_probe_read_user(r->value, kept, a->buf);
        else
                bpf_probe_read_kernel(r->value, kept, a->buf);
}

/* `kn`: the file's node in kernfs. */
static __always_inline void tell_write(void *kn, struct asked *a)
{
        struct file_name name = {};
        int zero = 0;

        bpf_probe_read_kernel_str(name.name, sizeof(name.name), read_kernel(void *, kn, OFF_KERNFS_NODE_NAME));
        if (!write_files.lookup(&name))
                return;
        void *parent = read_kernel(void *, kn, OFF_KERNFS_NODE_PARENT);
        void *root = read_kernel(void *, read_kernel(void *, parent, OFF_KERNFS_NODE_PRIV), OFF_CGROUP_ROOT);
        struct watched_dir dir = {
                .id = read_kernel(u64, parent, OFF_KERNFS_NODE_ID),
                .hierarchy = read_kernel(u32, root, OFF_CGROUP_ROOT_HIERARCHY_ID),
        };
        u32 *cgroup = write_dirs.lookup(&dir);
        struct cpu_state *st = state.lookup(&zero);
        struct write_state *w = write_state.lookup(&zero);

        if (!cgroup || !st || !w)
                return;
        if (w->window != st->window) {
                w->window = st->window;
                w->sent = 0;
        }
        if (w->sent >= MAX_WRITES) {
                w->dropped++;
                return;
        }
        struct control_write *r = writes.ringbuf_reserve(sizeof(*r));

        if (!r) {
                w->dropped++;
                return;
        }
        w->sent++;
        r->window = st->window;
        r->cgroup = *cgroup;
        r->hierarchy = dir.hierarchy;
        __builtin_memcpy(r->file, name.name, sizeof(r->file));
        fill_write(r, a);
        writes.ringbuf_submit(r, 0);
}

/* fexit of cgroup_file_write: four arguments, then what it returned. */
int on_control_write(unsigned long long *ctx)
{
        struct asked a = { .buf = (void *)ctx[1], .bytes = ctx[2], .result = ctx[4] };

        tell_write(read_kernel(void *, ctx[0], OFF_KERNFS_OPEN_FILE_KN), &a);
        return 0;
}

#if defined(__x86_64__) && defined(OFF_FDTABLE_FD)
/* struct user_regs_struct (ptrace(2)): a promise to user space, not a layout of this kernel. */
enum { WRITE_REG_DX = 96, WRITE_REG_SI = 104, WRITE_REG_DI = 112, WRITE_REG_ORIG_AX = 120, WRITE_REG_CS = 136 };
enum { NR_WRITE = 1, NR_PWRITE64 = 18, NR_WRITEV = 20 };
enum { MAGIC_CGROUP = 0x27e0eb, MAGIC_CGROUP2 = 0x63677270 };   /* include/uapi/linux/magic.h */
#define USER_CODE_64BIT   0x33
#define LONGEST_VALUE     4096          /* kernfs takes less than a page */

/* The kernfs node of a descriptor of ours, where it is a file of a cgroup. */
static __always_inline void *cgroup_file(u32 fd)
{
        void *files = read_kernel(void *, bpf_get_current_task(), OFF_TASK_STRUCT_FILES);
        void *table = read_kernel(void *, files, OFF_FILES_STRUCT_FDT);

        if (fd >= read_kernel(u32, table, OFF_FDTABLE_MAX_FDS))
                return 0;
        void *file = read_kernel(void *, read_kernel(void *, table, OFF_FDTABLE_FD), fd * sizeof(void *));
        void *inode = read_kernel(void *, file, OFF_FILE_F_INODE);
        u64 magic = read_kernel(u64, read_kernel(void *, inode, OFF_INODE_I_SB), OFF_SUPER_BLOCK_S_MAGIC);

        return magic == MAGIC_CGROUP || magic == MAGIC_CGROUP2 ? read_kernel(void *, inode, OFF_INODE_I_PRIVATE) : 0;
}

/* raw tracepoint sys_exit(regs, ret) */
int on_write_exit(struct bpf_raw_tracepoint_args *ctx)
{
        void *regs = (void *)ctx->args[0];
        u64 number = read_kernel(u64, regs, WRITE_REG_ORIG_AX);

        if (number != NR_WRITE && number != NR_PWRITE64 && number != NR_WRITEV)
                return 0;
        if ((u16)read_kernel(u64, regs, WRITE_REG_CS) != USER_CODE_64BIT)
                return 0;
        struct asked a = { .result = ctx->args[1], .in_user = 1 };
        u64 first[2] = {};              /* struct iovec, or what it would be */

        first[0] = read_kernel(u64, regs, WRITE_REG_SI);
        first[1] = read_kernel(u64, regs, WRITE_REG_DX);
        if (number == NR_WRITEV)
                bpf_probe_read_user(first, sizeof(first), (void *)first[0]);
        a.buf = (void *)first[0];
        a.bytes = first[1];
        void *kn = a.bytes < LONGEST_VALUE ? cgroup_file(read_kernel(u32, regs, WRITE_REG_DI)) : 0;

        if (kn)
                tell_write(kn, &a);
        return 0;
}
#endif

#endif
