/* autoscale_option.h - how advice about the number of accelerators is made: the option --autoscale, and a scenario's
 * `autoscale`. */
#pragma once

#include "core/util/error.h"
#include "lab/scenario/scenario.h"
#include "sched/plan/autoscale.h"

/* Reads "min=1,max=8,headroom=0.1,every_s=10,start_delay_s=60", any of them, over what is in `config`. 0, or -EINVAL
 * with a sentence without the option's name. */
int autoscale_option_read(const char *text, struct autoscale_config *config, struct sy_error *err);
/* What a scenario's `autoscale` says, but every_ns is a second at least: a server looks no more often. */
struct autoscale_config autoscale_of_scenario(const struct scenario_autoscale *scenario);
