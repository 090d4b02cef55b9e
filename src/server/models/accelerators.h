/* accelerators.h - reads the option --accelerators. */
#pragma once

#include <stdint.h>

#include "core/util/error.h"

#define ACCELERATORS_MAX      65536 /* accelerators of all types together */
#define ACCELERATORS_REAL_MAX 1024  /* accelerators of a type that is not emulated: each has a thread */

enum accelerator_kind { ACCELERATOR_CPU, ACCELERATOR_CUDA, ACCELERATOR_EMULATED };

struct accelerator_group {
    enum accelerator_kind kind;
    uint32_t count;
    char type[64]; /* name of the type: the text after KIND:N:, or else KIND ("cpu", "cuda", "emulated") */
};

/* Reads "cpu:2", "cuda:1,cpu:2", "emulated:8:gtx1080ti": groups separated by commas; a group without a count has 1
 * accelerator. Returns the number of groups, at most `max`, or -EINVAL with a sentence. */
int accelerators_parse(const char *text, struct accelerator_group *groups, uint32_t max, struct sy_error *err);
