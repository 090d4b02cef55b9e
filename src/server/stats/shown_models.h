/* shown_models.h - the models that a page of metrics shows: a copy of what it needs of the list of models, so that
 * nobody waits for the list while the page is written, which takes 0.1 s with 4,000 models. */
#pragma once

#include "front/net/metric_text.h"
#include "model/repository/model_index.h"

struct shown_model {
    uint32_t place;       /* model's number for frontends */
    uint32_t host;        /* place that its requests queue for, where they are scheduled here */
    uint32_t rank_thread; /* rank thread that it belongs to, where it is scheduled here; SUBCLUSTER_NONE: none */
    bool ready;           /* false: the model was set aside */
    bool prepared;        /* whether inputs are prepared */
    int64_t slo_ns;       /* 0: best effort */
    struct metric_model labels;
};

/* The models that are listed, which the caller frees; `host` is the place, and there is no rank thread. The list stays
 * unchanged meanwhile. NULL: no memory. */
struct shown_model *shown_models_of(const struct model_index *listed);
