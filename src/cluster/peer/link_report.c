/* link_report.c - copies the report, and writes it as Prometheus' text. */
#include "cluster/peer/link_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/peer/health.h"
#include "core/util/container.h"
#include "front/net/metric_text.h"

#define EVERY_NS (250 * NS_PER_MS) /* time between two copies */
#define AGAIN_NS (1 * NS_PER_MS)   /* delay of the copy while another thread reads the report */

void link_report_init(struct link_report *report) {
    *report = (struct link_report){.due_ns = 0};
    pthread_mutex_init(&report->lock, NULL);
}

void link_report_free(struct link_report *report) {
    pthread_mutex_destroy(&report->lock);
    free(report->rows);
    free(report->models);
    free(report->told);
    link_tallies_free(&report->tallies);
}

bool link_report_begin(struct link_report *report, int64_t now_ns, int64_t *until_ns) {
    bool begins = now_ns >= report->due_ns && pthread_mutex_trylock(&report->lock) == 0;
    if (now_ns >= report->due_ns)
        report->due_ns = now_ns + (begins ? EVERY_NS : AGAIN_NS);
    *until_ns = time_earlier(report->due_ns, *until_ns);
    if (begins)
        report->count = 0;
    return begins;
}

void link_report_add(struct link_report *report, const char *name, enum cluster_role role, uint32_t number,
                     const struct peer *peer, const struct health *health, int64_t now_ns) {
    if (report->count == report->room) {
        uint32_t room = report->room ? 2 * report->room : 16;
        struct link_row *grown = realloc(report->rows, room * sizeof(*grown));
        if (!grown)
            return; /* the page is shorter */
        report->rows = grown;
        report->room = room;
    }
    struct link_row *row = &report->rows[report->count++];
    *row = (struct link_row){
        .role = role,
        .number = number,
        .clock_known = clock_sync_known(&health->clock),
        .round_trip_ns = clock_sync_round_trip_ns(&health->clock),
        .clock_error_ns = clock_sync_error_ns(&health->clock, now_ns),
        .ahead_ns = clock_sync_known(&health->clock) ? clock_sync_peer(&health->clock, now_ns) - now_ns : 0,
        .bytes_in = peer->bytes_in,
        .bytes_out = peer->bytes_out};
    memcpy(row->requests, link_tally_at(&report->tallies, peer->tally)->counts, sizeof(row->requests));
    snprintf(row->name, sizeof(row->name), "%s", name);
}

void link_report_add_peer(struct link_report *report, const char *metrics, double slow) {
    if (report->count == 0)
        return;
    struct link_row *row = &report->rows[report->count - 1];
    snprintf(row->metrics, sizeof(row->metrics), "%s", metrics);
    row->slow = slow;
}

bool link_report_models_begin(struct link_report *report, uint32_t most) {
    report->model_count = 0;
    if (most > report->model_room) {
        free(report->models);
        report->models = malloc(most * sizeof(*report->models));
        report->model_room = report->models ? most : 0;
    }
    return most <= report->model_room;
}

void link_report_add_model(struct link_report *report, uint32_t place, const struct served_model *model,
                           bool stranded) {
    struct link_model *one = &report->models[report->model_count++];
    one->place = place;
    one->version = model->version;
    one->stranded = stranded;
    one->slo_ns = model->best_effort ? 0 : model->slo_ns;
    snprintf(one->name, sizeof(one->name), "%s", model->name);
}

static int by_name(const void *a, const void *b) {
    const struct link_model *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order                      ? order
           : x->version != y->version ? (x->version > y->version) - (x->version < y->version)
                                      : (x->place > y->place) - (x->place < y->place);
}

void link_report_models_end(struct link_report *report) {
    if (report->model_count > 0) /* else there may be no array */
        qsort(report->models, report->model_count, sizeof(*report->models), by_name);
}

/* Copies the tallies. Without memory the page has the ones before. */
static void tallies_tell(struct link_report *r) {
    if (r->tallies.count >= r->told_room) {
        struct link_tally *grown = realloc(r->told, (r->tallies.room + 1) * sizeof(*grown));
        if (!grown)
            return;
        r->told = grown;
        r->told_room = r->tallies.room + 1;
    }
    if (r->tallies.count > 0)
        memcpy(r->told, r->tallies.of, r->tallies.count * sizeof(*r->told));
    r->told[r->tallies.count] = r->tallies.others;
    r->told_count = r->tallies.count + 1;
}

void link_report_end(struct link_report *report, const struct link_totals *totals) {
    tallies_tell(report);
    report->totals = *totals;
    if (totals->lost)
        memcpy(report->lost, totals->lost, sizeof(report->lost));
    pthread_mutex_unlock(&report->lock);
}

bool link_report_ready(struct link_report *report) {
    pthread_mutex_lock(&report->lock);
    bool ready = report->totals.ready;
    pthread_mutex_unlock(&report->lock);
    return ready;
}

struct link_totals link_report_totals(struct link_report *report) {
    pthread_mutex_lock(&report->lock);
    struct link_totals totals = report->totals;
    pthread_mutex_unlock(&report->lock);
    totals.lost = NULL;
    return totals;
}

bool link_report_place(struct link_report *report, const char *name, uint32_t version, uint32_t *place) {
    pthread_mutex_lock(&report->lock);
    uint32_t from = 0, to = report->model_count;
    while (from < to) { /* the first that is not before it */
        uint32_t middle = (from + to) / 2;
        const struct link_model *one = &report->models[middle];
        int order = strcmp(one->name, name);
        if (order < 0 || (order == 0 && one->version < version))
            from = middle + 1;
        else
            to = middle;
    }
    bool found = from < report->model_count && report->models[from].version == version &&
                 strcmp(report->models[from].name, name) == 0;
    if (found)
        *place = report->models[from].place;
    pthread_mutex_unlock(&report->lock);
    return found;
}

struct link_model *link_report_models(struct link_report *report, uint32_t *count) {
    pthread_mutex_lock(&report->lock);
    struct link_model *copy = malloc(report->model_count * sizeof(*copy));
    *count = copy ? report->model_count : 0;
    if (*count > 0)
        memcpy(copy, report->models, *count * sizeof(*copy));
    pthread_mutex_unlock(&report->lock);
    return copy;
}

void link_report_rows(struct link_report *report, void (*row)(void *context, const struct link_row *row),
                      void *context) {
    pthread_mutex_lock(&report->lock);
    for (uint32_t i = 0; i < report->count; i++)
        row(context, &report->rows[i]);
    pthread_mutex_unlock(&report->lock);
}

/* ---- the page ---- */

enum { SCHEDULER = 1 << ROLE_SCHEDULER, FRONTEND = 1 << ROLE_FRONTEND, BACKEND = 1 << ROLE_BACKEND };

struct figure {
    const char *name, *type, *help;
    unsigned roles; /* roles that show the metric */
    uint64_t value;
};

static void render_figures(const struct link_totals *t, struct text *out) {
    const struct figure figures[] = {
        {"symphony_cluster_connected", "gauge", "Whether a scheduler has let this process in.", FRONTEND | BACKEND,
         t->ready},
        {"symphony_cluster_leads", "gauge", "Whether this scheduler leads.", SCHEDULER, t->ready},
        {"symphony_cluster_term", "gauge", "The term of the scheduler that leads, as far as this process knows.",
         SCHEDULER | FRONTEND | BACKEND, t->term},
        {"symphony_cluster_requests_sent_again_total", "counter",
         "Requests sent to a scheduler again, after another one, or its connection, was lost.", FRONTEND, t->again},
        {"symphony_cluster_pulls_given_up_total", "counter",
         "Requests left out of their batch because their inputs did not come in time.", BACKEND, t->given_up},
        {"symphony_cluster_cordoned", "gauge", "Whether this backend takes no batches, by 'symphony cordon'.", BACKEND,
         t->cordoned},
        {"symphony_cluster_models_set_aside", "gauge",
         "Models whose runs fail at this backend and not elsewhere, set aside for a while.", BACKEND, t->faulty},
        {"symphony_cluster_requests_total", "counter", "Requests that frontends have sent.", SCHEDULER, t->requests},
        {"symphony_cluster_batches_total", "counter", "Batches sealed.", SCHEDULER, t->batches},
        {"symphony_cluster_requests", "gauge", "Requests in the scheduler.", SCHEDULER, t->requests_now},
        {"symphony_cluster_models", "gauge", "Models that the cluster serves.", SCHEDULER, t->models},
        {"symphony_cluster_accelerators", "gauge", "Accelerators in service.", SCHEDULER, t->accelerators},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(figures); i++) {
        if (!(figures[i].roles >> t->role & 1))
            continue;
        metric_heading(out, figures[i].name, figures[i].type, figures[i].help);
        text_printf(out, "%s %" PRIu64 "\n", figures[i].name, figures[i].value);
    }
}

static void render_links(const struct link_report *r, struct text *out) {
    static const struct {
        const char *name, *type, *help;
        size_t offset;
        double unit;
        bool of_clock;
    } columns[] = {
        {"symphony_cluster_link_round_trip_seconds", "gauge", "The least of the last 64 exchanges with the peer.",
         offsetof(struct link_row, round_trip_ns), 1e9, true},
        {"symphony_cluster_link_clock_error_seconds", "gauge", "By how much a converted time of the peer may be wrong.",
         offsetof(struct link_row, clock_error_ns), 1e9, true},
        {"symphony_cluster_link_received_bytes_total", "counter", "Bytes from the peer since it was connected.",
         offsetof(struct link_row, bytes_in), 1, false},
        {"symphony_cluster_link_sent_bytes_total", "counter", "Bytes to the peer since it was connected.",
         offsetof(struct link_row, bytes_out), 1, false},
    };
    for (unsigned c = 0; c < ARRAY_COUNT(columns); c++) {
        metric_heading(out, columns[c].name, columns[c].type, columns[c].help);
        for (uint32_t i = 0; i < r->count; i++) {
            const struct link_row *row = &r->rows[i];
            if (columns[c].of_clock && !row->clock_known)
                continue;
            uint64_t value = *(const uint64_t *)((const char *)row + columns[c].offset); /* times are not negative */
            text_printf(out, "%s{role=\"%s\",peer=\"%s\",number=\"%u\"} %.15g\n", columns[c].name,
                        cluster_role_name(row->role), metric_label(row->name).text, row->number,
                        (double)value / columns[c].unit);
        }
    }
}

static void render_speeds(const struct link_report *r, struct text *out) {
    static const char name[] = "symphony_cluster_backend_slow";
    if (r->totals.role != ROLE_SCHEDULER)
        return;
    metric_heading(out, name, "gauge",
                   "How many times as long the backend's runs take as others' of its type; 1: it is not slower.");
    for (uint32_t i = 0; i < r->count; i++)
        if (r->rows[i].role == ROLE_BACKEND)
            text_printf(out, "%s{peer=\"%s\",number=\"%u\"} %.15g\n", name, metric_label(r->rows[i].name).text,
                        r->rows[i].number, r->rows[i].slow);
}

static void render_tallies(const struct link_report *r, struct text *out) {
    static const char *const names[LINK_COUNTS] = {[LINK_PULLED] = "symphony_cluster_link_pulled_requests_total",
                                                   [LINK_LATE] = "symphony_cluster_link_late_requests_total",
                                                   [LINK_LOST] = "symphony_cluster_link_lost_requests_total"};
    static const char *const help[LINK_COUNTS] = {
        [LINK_PULLED] = "Requests whose inputs went over connections with the peer.",
        [LINK_LATE] = "Requests that the backend ran too late; at a backend: whose inputs did not come in time.",
        [LINK_LOST] = "Requests that were lost at the peer, or on the way from or to it."};
    for (unsigned c = r->totals.role == ROLE_SCHEDULER ? LINK_LATE : LINK_PULLED; c < LINK_COUNTS; c++) {
        metric_heading(out, names[c], "counter", help[c]);
        for (uint32_t i = 0; i < r->told_count; i++) {
            const struct link_tally *t = &r->told[i];
            if (*t->name || t->counts[c])
                text_printf(out, "%s{role=\"%s\",peer=\"%s\"} %" PRIu64 "\n", names[c],
                            *t->name ? cluster_role_name(t->role) : "any",
                            *t->name ? metric_label(t->name).text : "others", t->counts[c]);
        }
    }
}

void link_report_render(struct link_report *report, struct text *out) {
    static const char lost[] = "symphony_cluster_requests_lost_total";
    struct link_report copy = {.count = 0};
    uint32_t peers[ROLE_COUNT] = {0};
    pthread_mutex_lock(&report->lock);
    copy.totals = report->totals;
    memcpy(copy.lost, report->lost, sizeof(copy.lost));
    copy.rows = malloc((report->count + 1) * sizeof(*copy.rows));
    if (copy.rows && report->count > 0) {
        copy.count = report->count;
        memcpy(copy.rows, report->rows, report->count * sizeof(*copy.rows));
    }
    copy.told = malloc((report->told_count + 1) * sizeof(*copy.told));
    if (copy.told && report->told_count > 0) {
        copy.told_count = report->told_count;
        memcpy(copy.told, report->told, report->told_count * sizeof(*copy.told));
    }
    pthread_mutex_unlock(&report->lock);
    render_figures(&copy.totals, out);
    metric_heading(out, lost, "counter",
                   "Requests whose batch was lost, or whose answer could not be delivered; frontends send them again.");
    for (enum lost_reason reason = 0; reason < LOST_REASONS; reason++)
        text_printf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", lost, lost_reason_name(reason), copy.lost[reason]);
    for (uint32_t i = 0; i < copy.count; i++)
        peers[copy.rows[i].role]++;
    metric_heading(out, "symphony_cluster_peers", "gauge", "Processes that this one is connected to.");
    for (enum cluster_role role = 0; role < ROLE_VISITOR; role++)
        if (role != copy.totals.role)
            text_printf(out, "symphony_cluster_peers{role=\"%s\"} %u\n", cluster_role_name(role), peers[role]);
    render_links(&copy, out);
    render_speeds(&copy, out);
    render_tallies(&copy, out);
    free(copy.rows);
    free(copy.told);
}
