/* whatif_report.h - how `symphony whatif` shows its results. */
#pragma once

#include "lab/report/recording_file.h"
#include "lab/report/simulate_report.h"

/* The figures of one simulation, which remain when the simulation is freed. */
struct whatif_run {
    char policy[64], accelerators[128]; /* "6 gtx1080ti" */
    uint32_t accelerator_count;
    struct simulate_summary all;
    double worst_bad_rate; /* highest bad rate of a model */
    char worst_model[128]; /* name of the model with the highest bad rate */
    struct text json;      /* output of `symphony simulate --json`; empty unless asked for */
    struct whatif_model {
        char name[128];
        double slo_ms, offered_rps, bad_rate, p99_ms;
    } * models; /* [model_count] in the recording's order */
    uint32_t model_count;
};

/* Takes the figures of a simulation, with `json` as JSON, too. 0 or -ENOMEM. */
int whatif_run_take(struct whatif_run *run, const struct simulation *simulation, bool json);
void whatif_run_free(struct whatif_run *run);

struct whatif_least {
    uint32_t accelerators;
    double bad_rate, bad_rate_below; /* bad_rate_below: with one accelerator less; negative: there cannot be less */
};

struct whatif_report {
    const char *source;
    const struct recording_file *file;
    double warmup_s;
    const struct whatif_run *recorded,
        *changed;                     /* runs without and with the changes; changed NULL: no changes were asked for */
    const struct whatif_least *least; /* least number of accelerators; NULL: not asked for */
};

void whatif_print(const struct whatif_report *report);
void whatif_print_json(const struct whatif_report *report);
