/* autoscale_option.h - how advice about the number of accelerators is made: the option --autoscale, and a scenario's
 * `autoscale`. */
#pragma once

#include "core/util/error.h"
#include "lab/scenario/scenario.h"
#include "sched/plan/autoscale.h"

/* Reads keys as in "min=1,max=8,headroom=0.1,every_s=10,start_delay_s=60" into `config`; the other values there stay.
 * 0, or -EINVAL with a sentence without the option's name. */
int autoscale_option_read(const char *text, struct autoscale_config *config, struct sy_error *err);
/* The settings of a scenario's `autoscale`, but with every_ns of a second at least, since a server looks at the load
 * once a second. */
struct autoscale_config autoscale_of_scenario(const struct scenario_autoscale *scenario);
