/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bcc counts the bytes of a ring buffer in pages. MACHINE_PAGE_SIZE comes from the command line: arm64 has pages of 4, 16
 * or 64 KiB, and a buffer that is no multiple of the machine's is refused.
 */
#define PAGE_SIZE ((unsigned long)MACHINE_PAGE_SIZE)
