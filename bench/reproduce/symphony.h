/* symphony.h - shared by the files of Symphony's figures. */
#pragma once

#include <stddef.h>

#include "report.h"
#include "runner.h"

/* A policy to compare: its name in figures, and the changes of a scenario. */
struct contender {
    const char *name, *sets;
};

/* deferred, symphony, clockwork, nexus. */
#define CONTENDERS 4
extern const struct contender contenders[CONTENDERS];
/* The same, but `deferred` comes twice, at the front: without and with consolidate. */
#define COMPARED 5
extern const struct contender compared[COMPARED];

/* Table 4's models, each alone on 8 accelerators. */
extern const char resnet50_yaml[], inception_yaml[];

void table2_run(struct context *c);
void figure1_run(struct context *c);
void figure4_run(struct context *c);
void figure5_run(struct context *c);
void figure6_run(struct context *c);
void figure7_run(struct context *c);
void figure8_run(struct context *c);
void figure9_run(struct context *c);
void figure10_run(struct context *c);
void figure11_run(struct context *c);
void figure13_run(struct context *c);
void figure14_run(struct context *c);
