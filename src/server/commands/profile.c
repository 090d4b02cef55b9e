/* profile.c - `symphony profile`: measures l(b) and memory of models, and keeps the profiles beside the models. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/log.h"
#include "core/system/thread.h"
#include "model/profile/prepare.h"
#include "model/profile/worker.h"
#include "model/repository/repository.h"
#include "server/commands/cli.h"
#include "server/commands/options.h"
#include "server/models/deployment.h"

struct profile_settings {
    const char *accelerator, *cache_dir, *op_library_dir;
    int64_t batch_max, core;
    bool force, json;
};

static const struct option_row rows[] = {
    OPTION_TEXT(struct profile_settings, accelerator, "accelerator", "NAME", "cpu, or cuda:N for the GPU of number N"),
    OPTION_INT(struct profile_settings, core, "core", "N", 0, 65535,
               "CPU core to measure on (default: the last one that this process may use)"),
    OPTION_INT(struct profile_settings, batch_max, "max-batch", "N", 1, PROFILE_BATCH_MAX,
               "greatest batch to measure; a server that runs larger ones measures again (default: the model's "
               "configuration's, else 64)"),
    OPTION_TEXT(struct profile_settings, cache_dir, "cache-dir", "DIR",
                "where profiles and optimised models go when a model's own folder cannot be written (default: "
                "$XDG_CACHE_HOME/symphony)"),
    OPTION_TEXT(struct profile_settings, op_library_dir, "op-library-dir", "DIR",
                "where libraries with models' own operators may lie, beside the models' folders"),
    OPTION_FLAG(struct profile_settings, force, "force", "measure even what has a profile that holds"),
    OPTION_FLAG(struct profile_settings, json, "json", "machine-readable result on standard output"),
    OPTION_END,
};

static const struct options options = {
    .command = "profile",
    .usage = "MODEL... [OPTION]...",
    .intro =
        "Measures the latency l(b) of batches of b = 1, 2, 3, 4, 6, 8, ... items and the memory of each model, in a\n"
        "child process, and keeps the result beside the model (see docs/profiles.md). MODEL is an .onnx file, a\n"
        "model's folder or a repository of models. `symphony serve` does this by itself for models that have no\n"
        "profile.",
    .rows = rows,
    .args_min = 1,
    .args_max = -1,
    .args_name = "MODEL",
};

/* One model's outcome. */
struct row {
    struct served_model *model;
    struct profile *profile; /* profile of the model; NULL: profiling failed, and model->reason says why */
    struct profile_record record;
    bool measured, slo_given;
};

static _Atomic bool stopped; /* static, since the signal handler needs it */

static void stop(int number) {
    (void)number;
    atomic_store_explicit(&stopped, true, memory_order_relaxed); /* a lone flag */
}

/* The table. */

static void bytes_format(char *text, size_t size, uint64_t bytes) {
    snprintf(text, size, "%.1f MiB", (double)bytes / (1 << 20));
}

static void row_print(const struct row *row) {
    const struct served_model *model = row->model;
    if (!row->profile) {
        printf("%s: %s\n\n", model->name, model->reason);
        return;
    }
    const struct profile *p = row->profile;
    char weights[32], batch[32];
    bytes_format(weights, sizeof(weights), row->record.weights_bytes);
    bytes_format(batch, sizeof(batch), row->record.batch_bytes);
    printf("%s (%s)\n", model->name, row->measured ? "measured now" : "from its cached profile");
    printf("  item       ");
    for (uint32_t i = 0; i < model->signature.input_count; i++) {
        printf("%s%s %s [", i ? ", " : "", model->signature.inputs[i].name,
               datatype_name(model->signature.inputs[i].type));
        for (uint32_t d = 0; d < model->signature.inputs[i].dim_count; d++)
            printf("%s%lld", d ? "," : "", (long long)row->record.item_dims[i][d]);
        printf("]");
    }
    printf("\n  l(b)       %.3f ms * b + %.3f ms, up to %u items%s%s%s\n", p->alpha_ns / 1e6, p->beta_ns / 1e6,
           model->batch_max, *row->record.note ? " (" : "", row->record.note, *row->record.note ? ")" : "");
    if (model->mixes)
        printf("  mixes      %s; batched since somebody said so\n", model->mixes);
    printf("  best batch %u; SLO %.0f ms%s\n", profile_batch_best(p), (double)model->slo_ns / 1e6,
           row->slo_given ? "" : " by default");
    printf("  memory     %s loaded, %s more for the largest batch measured; loads in %.1f ms (optimised copy: %s)\n",
           weights, batch, (double)row->record.load_ns / 1e6, row->record.cache);
    printf("  %8s %12s %12s\n", "b", "l(b) ms", "l(b)/b ms");
    for (uint32_t i = 0; i < row->record.point_count && row->record.batch[i] <= model->batch_max; i++)
        printf("  %8u %12.3f %12.3f\n", row->record.batch[i], (double)row->record.latency_ns[i] / 1e6,
               (double)row->record.latency_ns[i] / 1e6 / row->record.batch[i]);
    printf("\n");
}

static json_t *row_json(const struct row *row) {
    if (!row->profile)
        return json_pack("{s:s, s:s, s:s}", "model", row->model->name, "path", row->model->path ? row->model->path : "",
                         "error", row->model->reason);
    json_t *json = profile_record_pack(&row->record);
    json_object_set_new(json, "model", json_string(row->model->name));
    json_object_set_new(json, "path", json_string(row->model->path));
    json_object_set_new(json, "measured_now", json_boolean(row->measured));
    json_object_set_new(json, "alpha_ms", json_real(row->profile->alpha_ns / 1e6));
    json_object_set_new(json, "beta_ms", json_real(row->profile->beta_ns / 1e6));
    json_object_set_new(json, "batch_best", json_integer(profile_batch_best(row->profile)));
    json_object_set_new(json, "slo_ms", json_real((double)row->model->slo_ns / 1e6));
    return json;
}

/* Reads "cpu", "cuda", "cuda:1". */
static int accelerator_parse(const char *text, char *provider, size_t size, int *device, struct sy_error *err) {
    const char *colon = strchr(text, ':');
    int64_t number = 0;
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    bool cuda = length == 4 && strncmp(text, "cuda", 4) == 0;
    if ((!cuda && !(length == 3 && strncmp(text, "cpu", 3) == 0)) || length >= size || (colon && !cuda) ||
        (colon && options_read_int(colon + 1, 0, 1023, &number, err)))
        return error_set(err, -EINVAL, "--accelerator: '%s' is neither cpu nor cuda:N", text);
    snprintf(provider, size, "%.*s", (int)length, text);
    *device = (int)number;
    return 0;
}

/* Leaves out ensembles: their time and memory are those of their steps' models. */
static void ensembles_drop(struct served_model *models, uint32_t *count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        if (models[i].ensemble) {
            log_info("ensemble not profiled", "model=%s", models[i].name);
            served_model_release(&models[i]);
        } else {
            memmove(&models[kept++], &models[i], sizeof(models[0]));
        }
    }
    *count = kept;
}

/* Puts the models of all arguments into one list. */
static int models_find(char **paths, int count, const char *op_library_dir, struct served_model **models,
                       uint32_t *model_count, struct sy_error *err) {
    *models = NULL;
    *model_count = 0;
    for (int i = 0; i < count; i++) {
        struct served_model *found, *grown;
        uint32_t found_count;
        const struct repositories from = {
            .paths = (const char *const *)&paths[i], .count = 1, .op_library_dir = op_library_dir};
        int rc = repository_scan(&from, &found, &found_count, err);
        if (!rc)
            ensembles_drop(found, &found_count);
        if (!rc && !(grown = realloc(*models, (*model_count + found_count + 1) * sizeof(**models))))
            rc = error_set(err, -ENOMEM, "%s: out of memory", paths[i]);
        if (!rc) {
            *models = grown;
            for (uint32_t k = 0; k < found_count; k++)
                served_model_move(&(*models)[(*model_count)++], &found[k]);
            served_models_free(found, found_count);
        }
        if (!rc && i == count - 1 && *model_count == 0)
            rc = error_set(err, -ENOENT, "%s: there are ensembles only, which are not profiled", paths[i]);
        if (rc) {
            served_models_free(*models, *model_count);
            *models = NULL;
            return rc;
        }
    }
    return 0;
}

/* Profiles the models one after the other. Returns how many failed, or -EINTR. */
static int rows_fill(struct row *table, uint32_t count, const struct profile_options *how, bool json) {
    int failed = 0;
    struct profile_progress progress = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = &table[i];
        progress.model = row->model->name;
        progress.index = i;
        if (atomic_load_explicit(&row->model->state, memory_order_relaxed) == MODEL_LOADING) /* one thread */
            if (profile_prepare(row->model, how, &progress, &row->record, &row->profile, &row->measured) == -EINTR)
                return -EINTR;
        if (how->progress)
            fputs("\r\033[K", stderr);
        failed += !row->profile;
        if (!json) {
            row_print(row);
            fflush(stdout);
        }
    }
    return failed;
}

static int profile_run(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main(); /* not for users: model/profile/worker.h */
    struct profile_settings s = {.accelerator = "cpu", .core = -1};
    int args_count, status = options_parse(&options, argc, argv, &s, &args_count);
    if (status != OPTIONS_GO_ON)
        return status;
    struct sy_error err;
    struct served_model *models;
    uint32_t count;
    char provider[16];
    cpu_set_t allowed;
    thread_cores_allowed(&allowed);
    int last_core = CPU_COUNT(&allowed) ? thread_core_nth(&allowed, (unsigned)CPU_COUNT(&allowed) - 1) : -1;
    struct profile_options how = {.engine = engine_find("onnxruntime"),
                                  .provider = provider,
                                  .core = s.core >= 0 ? (int)s.core : last_core,
                                  .cache_dir = s.cache_dir,
                                  .batch_max = s.batch_max > 0 ? (uint32_t)s.batch_max : 0,
                                  .force = s.force,
                                  .stop = &stopped,
                                  .progress = isatty(STDERR_FILENO) ? deployment_progress_show : NULL};
    if (accelerator_parse(s.accelerator, provider, sizeof(provider), &how.device, &err))
        return cli_usage_error("profile", "%s", err.text);
    if (!how.engine)
        return cli_usage_error("profile",
                               "this program was built without ONNX Runtime, so there is nothing to measure");
    if (models_find(argv + 1, args_count, s.op_library_dir, &models, &count, &err))
        return cli_usage_error("profile", "%s", err.text);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    struct row *table = calloc(count, sizeof(*table));
    status = CLI_FAILURE;
    if (table) {
        for (uint32_t i = 0; i < count; i++)
            table[i] = (struct row){.model = &models[i], .slo_given = models[i].slo_ns != 0};
        status = rows_fill(table, count, &how, s.json) ? CLI_FAILURE : CLI_OK;
    }
    if (table && s.json && !stopped) {
        json_t *all = json_array();
        for (uint32_t i = 0; i < count; i++)
            json_array_append_new(all, row_json(&table[i]));
        cli_json_print(all, JSON_REAL_PRECISION(12));
    }
    for (uint32_t i = 0; table && i < count; i++)
        free(table[i].profile);
    free(table);
    served_models_free(models, count);
    return status;
}

const struct cli_command cli_profile = {
    .name = "profile",
    .summary = "measures latency and memory of models",
    .run = profile_run,
};
