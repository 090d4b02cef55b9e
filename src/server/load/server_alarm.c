/* server_alarm.c - reads the frontends' counts of each model, and writes the lines. */
#include "server/load/server_alarm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/alarm.h"
#include "core/data/reason.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/counter.h"
#include "model/config/ensemble.h"

/* What was seen of a place's model. */
struct watched {
    uint64_t key; /* key of the model */
    struct alarm alarm;
};

struct server_alarm {
    struct model_list *models;
    struct watched *watched; /* [models->count] */
    struct trail *trails;    /* [keep] scratch: trails of one state and frontend */
    uint64_t keep;
    int64_t minute_ns;      /* begin of the minute in which `lines` were written */
    uint32_t lines, unsaid; /* lines of that minute, and those that were too many */
};

/* The reason that most of a model's trails since `since_ns` have. */
struct main_reason {
    uint32_t count[REASON_COUNT];
    struct reason newest[REASON_COUNT]; /* reason of the newest trail of a kind */
    enum reason_kind kind;              /* kind that most have; REASON_NONE: there are no trails */
};

int server_alarm_create(struct server_alarm **alarm, struct model_list *models, uint32_t trails_keep) {
    struct server_alarm *a = *alarm = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->models = models;
    a->watched = calloc(models->count + 1, sizeof(*a->watched));
    a->keep = trails_keep;
    a->trails = calloc(trails_keep + 1, sizeof(*a->trails));
    return a->watched && a->trails ? 0 : -ENOMEM;
}

void server_alarm_free(struct server_alarm *a) {
    if (!a)
        return;
    free(a->watched);
    free(a->trails);
    free(a);
}

/* Reads why the model's requests since `since_ns` were bad. */
static void reasons_read(struct server_alarm *a, uint32_t place, uint64_t key, int64_t since_ns,
                         struct main_reason *main) {
    const struct frontends *fs = a->models->frontends;
    *main = (struct main_reason){.kind = REASON_NONE};
    for (uint32_t f = 0; f < fs->count; f++)
        for (unsigned state = 0; state < TRAIL_IN_TIME; state++) {
            const struct trails *trails = &fs->list[f]->inferences.trails;
            if (!trails_kept(trails))
                continue;
            uint64_t count = trails_read(trails, state, a->trails, a->keep);
            for (uint64_t i = 0; i < count; i++) {
                const struct trail *t = &a->trails[i];
                if (t->model != place || t->model_key != (uint32_t)key ||
                    t->arrival_ns + t->took_us * NS_PER_US < since_ns)
                    continue;
                struct reason reason = reason_of(t);
                main->newest[reason.kind] = reason;
                if (++main->count[reason.kind] > main->count[main->kind] || main->kind == REASON_NONE)
                    main->kind = reason.kind;
            }
        }
}

/* Whether one more line may be written in this minute. */
static bool line_allowed(struct server_alarm *a) {
    if (a->lines < ALARM_LINES_MOST) {
        a->lines++;
        return true;
    }
    a->unsaid++;
    return false;
}

static void minute_begin(struct server_alarm *a, int64_t now_ns) {
    if (a->unsaid > 0)
        log_warn("more models' requests are not served in time, or are again", "models=%u", a->unsaid);
    a->lines = a->unsaid = 0;
    a->minute_ns = now_ns;
}

/* The name of an ensemble of which the model is a step. NULL: there is none. */
static const char *ensemble_with(const struct model_index *listed, const char *model) {
    for (uint32_t i = 0; i < listed->count; i++) {
        const struct served_model *m = &listed->models[listed->listed[i]];
        for (uint32_t v = 0; m->ensemble && v < m->ensemble->step_count; v++)
            if (strcmp(m->ensemble->steps[v].model, model) == 0)
                return m->name;
    }
    return NULL;
}

static void bad_say(struct server_alarm *a, const struct served_model *model, uint32_t place, int64_t since_ns,
                    const struct model_index *listed) {
    const struct alarm_counts *told = &a->watched[place].alarm.told;
    uint64_t bad = told->refused + told->failed + told->late;
    struct main_reason main;
    struct sy_error why = {""};
    char help[256] = "";
    const char *name = "unknown", *ensemble;
    bool retry;
    reasons_read(a, place, a->watched[place].key, since_ns, &main);
    const struct reason *reason = &main.newest[main.kind];
    if (main.kind != REASON_NONE) {
        name = reason_name(main.kind);
        reason_words(reason, model_index_name(listed, reason->before), why.text, sizeof(why.text));
        reason_help(reason, help, sizeof(help));
    } else if (!served_model_ready(model, &retry, &why)) { /* such requests have no trails */
        name = "not_ready";
    } else if ((ensemble = ensemble_with(listed, model->name))) {
        name = "ensemble";
        error_set(&why, 0, "its requests are steps of ensembles, such as '%s', whose requests say why", ensemble);
    }
    log_warn("requests are not served in time",
             "model=%s version=%u bad_percent=%.1f requests=%llu refused=%llu failed=%llu late=%llu reason=%s "
             "why=\"%s\" help=\"%s\"",
             model->name, model->version, 100 * (double)bad / (double)told->requests,
             (unsigned long long)told->requests, (unsigned long long)told->refused, (unsigned long long)told->failed,
             (unsigned long long)told->late, name, why.text, help);
}

static void place_look(struct server_alarm *a, const struct model_index *listed, uint32_t place, int64_t now_ns) {
    const struct frontends *fs = a->models->frontends;
    const struct served_model *model = &listed->models[place];
    struct watched *w = &a->watched[place];
    struct alarm_counts now = {.requests = 0};
    uint64_t in_time = 0;
    for (uint32_t f = 0; f < fs->count; f++) {
        const struct model_infer_counters *c = &frontends_counters(fs, f)->models[place];
        uint64_t in_time_here = counter_get(&c->in_time), ok = counter_get(&c->outcomes[OUTCOME_OK]);
        in_time += in_time_here < ok ? in_time_here : ok;
        now.requests += ok;
        now.refused += counter_get(&c->outcomes[OUTCOME_REFUSED]);
        now.failed += counter_get(&c->outcomes[OUTCOME_FAILED]);
    }
    now.late = now.requests - in_time;
    now.requests += now.refused + now.failed;
    if (w->key != served_model_key(model))
        *w = (struct watched){.key = served_model_key(model)};
    int64_t said_ns = w->alarm.said_ns;
    enum alarm_news news = alarm_look(&w->alarm, now_ns, &now);
    if (news == ALARM_NONE || !line_allowed(a))
        return;
    if (news == ALARM_ENDS)
        log_info("requests are served in time again", "model=%s version=%u after_s=%.0f bad=%llu requests=%llu",
                 model->name, model->version, (double)(now_ns - w->alarm.since_ns) / (double)NS_PER_S,
                 (unsigned long long)(w->alarm.told.refused + w->alarm.told.failed + w->alarm.told.late),
                 (unsigned long long)w->alarm.told.requests);
    else
        bad_say(a, model, place, news == ALARM_BEGINS ? now_ns - ALARM_LOOKS * NS_PER_S : said_ns, listed);
}

void server_alarm_look(struct server_alarm *a) {
    if (!a)
        return;
    int64_t now_ns = clock_now_ns();
    if (now_ns - a->minute_ns >= ALARM_AGAIN_NS)
        minute_begin(a, now_ns);
    const struct model_index *listed = model_list_lock(a->models);
    for (uint32_t i = 0; i < listed->count; i++)
        place_look(a, listed, listed->listed[i], now_ns);
    model_list_unlock(a->models);
}
