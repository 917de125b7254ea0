/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bcc's helpers.h names the arguments of all BPF helper functions with the kernel's integer types. All architectures
 * that have BPF trampolines or raw tracepoints are LP64 here (a check below says so), so one definition serves.
 */
#ifndef PINPROOF_TYPES_H
#define PINPROOF_TYPES_H
typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;

typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;

typedef __u16 __le16;
typedef __u16 __be16;
typedef __u16 __sum16;
typedef __u32 __le32;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u64 __le64;
typedef __u64 __be64;

typedef _Bool bool;
typedef unsigned long size_t;
typedef long ssize_t;
typedef unsigned long uintptr_t;
typedef long long loff_t;
typedef int pid_t;
typedef unsigned int dev_t;
typedef unsigned int gfp_t;
typedef unsigned short umode_t;
typedef unsigned int __poll_t;

#define __aligned_u64 __u64 __attribute__((aligned(8)))
#define __bitwise
#define NULL ((void *)0)

_Static_assert(sizeof(__u64) == 8 && sizeof(__u32) == 4, "integer types of another size");
#endif
