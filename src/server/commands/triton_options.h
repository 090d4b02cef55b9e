/* triton_options.h - options of Triton's server, and of KServe's, and what they are called here. */
#pragma once

#include "server/commands/options.h"

/* For `symphony serve`; those that have the same name here are not in it. */
extern const struct option_foreign triton_options[];
