/* clockwork.h - shared by the files of Clockwork's figures. */
#pragma once

#include "report.h"

void clockwork9_run(struct context *c);
void clockwork11_run(struct context *c);
