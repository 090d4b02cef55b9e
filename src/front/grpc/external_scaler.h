/* external_scaler.h - KEDA's external scaler (proto/externalscaler.proto): tells an autoscaler how many accelerators
 * there should be (core/data/advice.h). The frontend's thread; not on the hot path.
 *
 * KEDA starts as many replicas as the metric's value divided by its target. The value is the number of accelerators
 * that are wanted. The target is the number of accelerators of a replica, which the ScaledObject names (metadata
 * `acceleratorsPerReplica`, default 1). */
#pragma once

#include "core/data/advice.h"
#include "core/util/error.h"
#include "core/util/text.h"
#include "front/grpc/grpc_services.h"

#define SCALER_METRIC "symphony_accelerators_wanted"

/* Answers a message of a GRPC_SCALER_... method: a GetMetricsRequest, or a ScaledObjectRef. 200, or a status with a
 * sentence: 503 as long as there is no advice, except for the metric's description, which needs none. */
unsigned scaler_answer(const struct advice *advice, enum grpc_method method, const void *request, struct text *out,
                       struct sy_error *err);
/* Whether any accelerator is wanted: 0 or 1; ADVICE_NONE: there is no advice. */
int scaler_active(const struct advice *advice);
/* Appends an IsActiveResponse. */
void scaler_put_active(struct text *out, bool active);
