/* describe.h - descriptions of the server and its models, as the messages of proto/inference.proto.
 *
 * gRPC sends these messages as they are, HTTP as JSON (message_json.h). Any thread; not on the hot path. */
#pragma once

#include "core/util/error.h"
#include "front/request/shared_memory.h"
#include "front/request/statistics.h"
#include "front/v2/settings.h"
#include "front/v2/v2.h"
#include "inference.pb-c.h"

/* Memory for one description; its strings belong to the models or are literals. */
struct description {
    char *memory;
    size_t bytes, used;
};

/* Takes memory for a description of `model`; NULL: of the server, of the list of models, of settings or regions. 0 or
 * -ENOMEM; call describe_end() in either case. */
int describe_begin(struct description *d, const struct model_index *models, const struct served_model *model);
void describe_end(struct description *d);

/* `name`: the server's; NULL: "symphony". `takes_orders`: the server loads and unloads models on order. `shares`: it
 * serves shared memory. */
const ProtobufCMessage *describe_server(struct description *d, const char *name, bool takes_orders, bool shares);
/* `versioned`: names the version of `model` alone; else all versions of its name. */
const ProtobufCMessage *describe_model(struct description *d, const struct model_index *models,
                                       const struct served_model *model, bool versioned);
const Inference__ModelConfig *describe_config(struct description *d, const struct served_model *model);
const Inference__RepositoryIndexResponse *describe_index(struct description *d, const struct model_index *models,
                                                         bool ready_only);
/* Calls `put` for each version of the model with its statistics, which are gone when it returns; `versioned`: for this
 * version alone; `model` NULL: for all models. 0 or -ENOMEM. */
int describe_statistics(const struct model_index *models, const struct served_model *model, bool versioned,
                        const struct statistics_source *source,
                        void (*put)(void *context, const Inference__ModelStatistics *statistics), void *context);
const Inference__LogSettingsResponse *describe_log_settings(struct description *d);
const Inference__TraceSettingResponse *describe_trace_settings(struct description *d, struct tracing *tracing,
                                                               uint32_t model);

/* ---- shared memory ---- */

/* The region of that name, or with "" all regions. 0; or a status with a sentence: 403 the client is on another
 * machine, 404 there is no such region, 501 shared memory is not served, 503 no memory. */
int describe_regions(struct description *d, struct shared_memory *memory, bool local, const char *name,
                     const Inference__SystemSharedMemoryStatusResponse **response, struct sy_error *err);
