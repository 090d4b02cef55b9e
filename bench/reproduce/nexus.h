/* nexus.h - shared by the files of Nexus's figures. */
#pragma once

#include "report.h"

void nexus17_run(struct context *c);
