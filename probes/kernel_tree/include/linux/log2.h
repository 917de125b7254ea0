/* SPDX-License-Identifier: Apache-2.0 */
/* bcc's helpers.h includes this file; nothing of the kernel's logarithms is used by it or by our programs. */
