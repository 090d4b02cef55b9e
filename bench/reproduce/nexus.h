/* nexus.h - shared by the files of Nexus's figures. */
#pragma once

#include "report.h"

void nexus10_run(struct context *c);
void nexus11_run(struct context *c);
void nexus13_run(struct context *c);
void nexus74_run(struct context *c);
void nexus15_run(struct context *c);
void nexus17_run(struct context *c);
