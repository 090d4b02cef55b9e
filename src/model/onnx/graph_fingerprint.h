/* graph_fingerprint.h - tells whether two models have the same graph, and differ in their weights at most: then runs of
 * one take as long as runs of the other.
 *
 * Weights are initialisers of floating-point or 8-bit numbers, all of whose takers are operators that only compute with
 * them. Other initialisers count with their elements, since they may be shapes, axes, indices or factors of sizes.
 * Names count, too: models of one origin have the same. */
#pragma once

#include "core/util/error.h"
#include "model/engine/fingerprint.h"

/* The fingerprint of the graph of a model's file, without its weights; files of weights are not read. 0, or -errno with
 * a sentence. Set-up only, one thread. */
int graph_fingerprint(const char *path, struct fingerprint *fingerprint, struct sy_error *err);
