/* kairos.h - what the files of Kairos's figures share. */
#pragma once

#include "kairos_pool.h"

void kairos1_run(struct context *c);
void kairos3_run(struct context *c);
void kairos9_run(struct context *c);
void kairos12_run(struct context *c);
void kairos13_run(struct context *c);
void kairos14_run(struct context *c);
