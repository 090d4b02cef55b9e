/* nexus.h - shared by the files of Nexus's figures. */
#pragma once

#include "report.h"

void nexus15_run(struct context *c);
void nexus17_run(struct context *c);
