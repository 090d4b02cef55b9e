/* symphony.h - what the files of Symphony's figures share. */
#pragma once

#include <stddef.h>

#include "report.h"
#include "runner.h"

/* A policy as figures compare it: its name there, and the changes of a scenario. */
struct contender {
    const char *name, *sets;
};

/* deferred, symphony, clockwork, nexus. */
#define CONTENDERS 4
extern const struct contender contenders[CONTENDERS];
/* The same with `deferred` both without and with consolidate, which come first. */
#define COMPARED 5
extern const struct contender compared[COMPARED];

/* Table 4's models, each alone on 8 accelerators. */
extern const char resnet50_yaml[], inception_yaml[];

void table2_run(struct context *c);
void figure4_run(struct context *c);
void figure6_run(struct context *c);
void figure7_run(struct context *c);
void figure8_run(struct context *c);
void figure9_run(struct context *c);
void figure10_run(struct context *c);
void figure11_run(struct context *c);
void figure13_run(struct context *c);
