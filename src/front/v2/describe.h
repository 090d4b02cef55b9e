/* describe.h - what the server says of itself and its models, as the messages of proto/inference.proto.
 *
 * Both protocols answer with them: gRPC as they are, HTTP as JSON (message_json.h). Any thread; not on the hot path. */
#pragma once

#include "core/util/error.h"
#include "front/request/shared_memory.h"
#include "front/request/statistics.h"
#include "front/v2/settings.h"
#include "front/v2/v2.h"
#include "inference.pb-c.h"

/* Memory for one description; strings in it are the models' and literals. */
struct description {
    char *memory;
    size_t bytes, used;
};

/* Room for a description of all models. 0 or -ENOMEM; describe_end() is due in either case. */
int describe_begin(struct description *d, const struct model_index *models);
void describe_end(struct description *d);

/* `name`: the server's; NULL: "symphony". `takes_orders`: to load and unload models. */
const ProtobufCMessage *describe_server(struct description *d, const char *name, bool takes_orders, bool shares);
/* `versioned`: that version alone. */
const ProtobufCMessage *describe_model(struct description *d, const struct model_index *models,
                                       const struct served_model *model, bool versioned);
const Inference__ModelConfig *describe_config(struct description *d, const struct served_model *model);
const Inference__RepositoryIndexResponse *describe_index(struct description *d, const struct model_index *models,
                                                         bool ready_only);
/* Of all versions of the model; `versioned`: of that version alone; of all models with `model` NULL. */
const ProtobufCMessage *describe_statistics(struct description *d, const struct model_index *models,
                                            const struct served_model *model, bool versioned,
                                            const struct statistics_source *source);
const Inference__LogSettingsResponse *describe_log_settings(struct description *d);
const Inference__TraceSettingResponse *describe_trace_settings(struct description *d);

/* ---- shared memory: what both protocols do with the registry ---- */

/* The regions of that name, or with "" all. 0; 404 with a sentence: there is no such one; 501:
 * none are served; 503. */
int describe_regions(struct description *d, struct shared_memory *memory, bool local, const char *name,
                     const Inference__SystemSharedMemoryStatusResponse **response, struct sy_error *err);
