/* frontends_visit.c - finds the frontends among a scheduler's links, and keeps a connection to each. */
#include "server/commands/frontends_visit.h"

#include <stdio.h>
#include <string.h>

#include "core/system/clock.h"

#define EVERY_NS  (2 * NS_PER_S) /* time between two questions to a frontend */
#define LOST_NS   (10 * NS_PER_S)
#define TIMEOUT_S 1
#define PATH      "/v2/symphony/state?sort=name&limit=10000&accelerators=0"

static const char *word(const json_t *json, const char *name) {
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "";
}

static void entry_free(struct frontends_visit *v, unsigned i) {
    metrics_visit_close(v->of[i].visit);
    json_decref(v->of[i].models);
    memset(&v->of[i], 0, sizeof(v->of[i]));
}

void frontends_visit_end(struct frontends_visit *v) {
    for (unsigned i = 0; i < FRONTENDS_ASKED; i++)
        entry_free(v, i);
}

/* The entry of a frontend, or a new one; FRONTENDS_ASKED: there is none left. */
static unsigned entry_of(struct frontends_visit *v, const char *at) {
    unsigned i = 0;
    while (i < FRONTENDS_ASKED && *v->of[i].at && strcmp(v->of[i].at, at) != 0)
        i++;
    if (i < FRONTENDS_ASKED)
        snprintf(v->of[i].at, sizeof(v->of[i].at), "%s", at);
    return i;
}

/* Asks a frontend, if it is time. */
static void entry_ask(struct frontends_visit *v, unsigned i) {
    struct metrics_visit_settings settings = *v->settings;
    struct sy_error err;
    json_t *state = NULL;
    char url[sizeof(v->of[i].at) + 8];
    int64_t now_ns = clock_now_ns();
    if (now_ns < v->of[i].again_ns)
        return;
    settings.timeout_s = TIMEOUT_S;
    snprintf(url, sizeof(url), "%s%s", strncmp(v->url, "https://", 8) == 0 ? "https://" : "http://", v->of[i].at);
    int rc = v->of[i].visit ? 0 : metrics_visit_open(&v->of[i].visit, &settings, url, &err);
    rc = rc < 0 ? rc : metrics_visit_json(v->of[i].visit, PATH, &state, &err);
    if (rc < 0) {
        metrics_visit_close(v->of[i].visit);
        v->of[i].visit = NULL;
    }
    json_decref(v->of[i].models);
    v->of[i].models = json_incref(json_object_get(state, "models"));
    json_decref(state);
    v->of[i].again_ns = now_ns + (rc < 0 ? LOST_NS : EVERY_NS);
}

static double p99_of(const json_t *model) {
    return json_number_value(json_object_get(json_object_get(model, "latency_ms"), "p99"));
}

/* Adds a frontend's times to the models of the state; its own are by name and version. */
static void times_add(json_t *models, const json_t *of_frontend) {
    size_t i;
    json_t *model;
    json_array_foreach(models, i, model) {
        size_t from = 0, to = json_array_size(of_frontend);
        while (from < to) {
            size_t middle = (from + to) / 2;
            const json_t *one = json_array_get(of_frontend, middle);
            int order = strcmp(word(one, "name"), word(model, "name"));
            order = order ? order : (int)(strlen(word(one, "version")) - strlen(word(model, "version")));
            order = order ? order : strcmp(word(one, "version"), word(model, "version"));
            if (order < 0)
                from = middle + 1;
            else
                to = middle;
        }
        const json_t *same = json_array_get(of_frontend, from);
        if (!same || strcmp(word(same, "name"), word(model, "name")) != 0 ||
            strcmp(word(same, "version"), word(model, "version")) != 0 || p99_of(same) <= p99_of(model))
            continue;
        json_object_set(model, "latency_ms", json_object_get(same, "latency_ms"));
        if (json_object_get(same, "queue_ms"))
            json_object_set(model, "queue_ms", json_object_get(same, "queue_ms"));
    }
}

void frontends_visit_add(struct frontends_visit *v, json_t *state) {
    const json_t *cluster = json_object_get(state, "cluster");
    size_t i;
    json_t *link;
    if (strcmp(word(cluster, "role"), "scheduler") != 0)
        return;
    json_array_foreach(json_object_get(cluster, "links"), i, link) {
        const char *at = word(link, "metrics");
        unsigned entry = *at && strcmp(word(link, "role"), "frontend") == 0 ? entry_of(v, at) : FRONTENDS_ASKED;
        if (entry == FRONTENDS_ASKED)
            continue;
        entry_ask(v, entry);
        times_add(json_object_get(state, "models"), v->of[entry].models);
    }
}
