/* external_scaler.c - the methods of the external scaler: reads a message, and writes its answer. */
#include "front/grpc/external_scaler.h"

#include <string.h>

#include "core/util/decimal.h"
#include "externalscaler.pb-c.h"
#include "front/grpc/grpc_pack.h"

#define PER_REPLICA       "acceleratorsPerReplica"
#define PER_REPLICA_LEAST 0.001 /* least accelerators of a replica: KEDA counts in thousandths */
#define PER_REPLICA_MOST  65536

/* ---- what a ScaledObject says ---- */

/* Other keys are KEDA's own, or nobody's. `object` may be NULL: it says nothing. 200 or 400 with a sentence. */
static unsigned per_replica_read(const Externalscaler__ScaledObjectRef *object, double *per_replica,
                                 struct sy_error *err) {
    *per_replica = 1;
    for (size_t i = 0; object && i < object->n_scalermetadata; i++) {
        const char *key = object->scalermetadata[i]->key, *value = object->scalermetadata[i]->value;
        if (strcmp(key, PER_REPLICA) == 0 &&
            decimal_double(value, PER_REPLICA_LEAST, PER_REPLICA_MOST, per_replica) < 0)
            return (unsigned)error_set(err, 400, "the metadata's %s is '%.64s': expected a number from %g to %d", key,
                                       value, PER_REPLICA_LEAST, PER_REPLICA_MOST);
    }
    return 200;
}

/* ---- answers ---- */

int scaler_active(const struct advice *advice) {
    int64_t wanted = advice_get(advice);
    return wanted == ADVICE_NONE ? (int)ADVICE_NONE : wanted > 0;
}

void scaler_put_active(struct text *out, bool active) {
    Externalscaler__IsActiveResponse response = EXTERNALSCALER__IS_ACTIVE_RESPONSE__INIT;
    response.result = active;
    grpc_pack(&response, out);
}

static unsigned advice_missing(struct sy_error *err) {
    return (unsigned)error_set(err, 503, "nobody has said yet how many accelerators there should be");
}

static unsigned metrics_answer(const struct advice *advice, const Externalscaler__GetMetricsRequest *request,
                               struct text *out, struct sy_error *err) {
    double per_replica;
    unsigned status = per_replica_read(request->scaledobjectref, &per_replica, err);
    int64_t wanted = advice_get(advice);
    if (status != 200)
        return status;
    if (strcmp(request->metricname, SCALER_METRIC) != 0)
        return (unsigned)error_set(err, 400, "there is no metric '%.64s': the only one is " SCALER_METRIC,
                                   request->metricname);
    if (wanted == ADVICE_NONE)
        return advice_missing(err);
    Externalscaler__GetMetricsResponse response = EXTERNALSCALER__GET_METRICS_RESPONSE__INIT;
    Externalscaler__MetricValue value = EXTERNALSCALER__METRIC_VALUE__INIT, *values = &value;
    value.metricname = SCALER_METRIC;
    value.metricvalue = wanted;
    value.metricvaluefloat = (double)wanted;
    response.n_metricvalues = 1;
    response.metricvalues = &values;
    grpc_pack(&response, out);
    return 200;
}

static unsigned object_answer(const struct advice *advice, enum grpc_method method,
                              const Externalscaler__ScaledObjectRef *object, struct text *out, struct sy_error *err) {
    double per_replica;
    unsigned status = per_replica_read(object, &per_replica, err);
    int active = scaler_active(advice);
    if (status != 200)
        return status;
    if (method != GRPC_SCALER_SPEC && method != GRPC_SCALER_WATCH_SPEC) {
        if (active == ADVICE_NONE)
            return advice_missing(err);
        scaler_put_active(out, active);
        return 200;
    }
    Externalscaler__GetMetricSpecResponse response = EXTERNALSCALER__GET_METRIC_SPEC_RESPONSE__INIT;
    Externalscaler__MetricSpec spec = EXTERNALSCALER__METRIC_SPEC__INIT, *specs = &spec;
    spec.metricname = SCALER_METRIC;
    spec.targetsize =
        per_replica < 1 ? 1 : (int64_t)(per_replica + 0.5); /* for a KEDA that does not read targetsizefloat */
    spec.targetsizefloat = per_replica;
    response.n_metricspecs = 1;
    response.metricspecs = &specs;
    grpc_pack(&response, out);
    return 200;
}

unsigned scaler_answer(const struct advice *advice, enum grpc_method method, const void *request, struct text *out,
                       struct sy_error *err) {
    return method == GRPC_SCALER_METRICS ? metrics_answer(advice, request, out, err)
                                         : object_answer(advice, method, request, out, err);
}
