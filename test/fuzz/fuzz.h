/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A fuzz target is a file that defines these two. libFuzzer brings the rest, and fuzz.c the command that writes the
 * seeds: fuzz-NAME --seeds DIR. */

#include <stddef.h>
#include <stdint.h>

/* One input; a property that does not hold ends the program: use assert_se(). The bytes end where the heap block does,
 * so that the sanitizer sees who reads behind them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Calls seed() for each input that the fuzzer shall start from. */
void fuzz_seeds(void (*seed)(const void *data, size_t size));
