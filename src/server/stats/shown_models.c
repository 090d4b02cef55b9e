/* shown_models.c - copies what metrics show of models. */
#include "server/stats/shown_models.h"

#include <stdlib.h>

#include "sched/threads/wiring.h"

struct shown_model *shown_models_of(const struct model_index *listed) {
    struct shown_model *shown = malloc((listed->count + 1) * sizeof(*shown));
    for (uint32_t i = 0; shown && i < listed->count; i++) {
        const struct served_model *m = &listed->models[listed->listed[i]];
        shown[i].place = shown[i].host = listed->listed[i];
        shown[i].rank_thread = SUBCLUSTER_NONE;
        shown[i].ready = served_model_state(m) == MODEL_READY;
        shown[i].prepared = m->prepared != 0;
        shown[i].slo_ns = m->best_effort ? 0 : m->slo_ns;
        shown[i].labels = metric_model(m);
    }
    return shown;
}
