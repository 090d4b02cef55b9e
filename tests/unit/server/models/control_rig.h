/* control_rig.h - a whole server that serves nothing yet, over a repository that the test fills: one CPU accelerator,
 * HTTP on a free port. The program is also the child that profiles: its main() begins with control_rig_child(). */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/folder.h"
#include "model/profile/worker.h"
#include "server/models/deployment.h"
#include "server/process/server_state.h"
#include "unit/cmocka_all.h"
#include "unit/temp_folder.h"

#define RIG_MODELS 2 /* that may be loaded at once */

/* Called on the repository's thread while a model is being measured; NULL: nothing is. Set it before the rig. */
static void (*rig_measuring)(void);

static inline void rig_progress(void *context, const struct profile_progress *progress) {
    if (strcmp(progress->phase, "measuring") == 0)
        rig_measuring();
}

struct control_rig {
    char folder[64];
    const char *path; /* `folder` */
    struct repository_control control;
    struct deployment deployment;
    struct server *server;
};

static inline bool control_rig_child(int argc, char **argv) {
    return argc == 3 && strcmp(argv[2], WORKER_ARGUMENT) == 0;
}

/* Puts FILE of the engine's tests at NAME/VERSION/model.onnx. */
static inline void rig_put(const struct control_rig *rig, const char *name, int version, const char *file) {
    char command[512];
    snprintf(command, sizeof(command), "mkdir -p %s/%s/%d && cp '%s/unit/back/engine/data/%s' %s/%s/%d/model.onnx",
             rig->folder, name, version, TESTS_DIR, file, rig->folder, name, version);
    assert_int_equal(system(command), 0);
}

static inline void rig_wait(void) {
    nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
}

/* The place that serves a model, or -1, with what is said of it; said may be NULL. */
static inline int rig_place_of(const struct control_rig *rig, const char *name, char said[600]) {
    const struct model_index *models = server_models_lock(rig->server);
    int place = model_index_number(models, name, strlen(name), 0);
    if (said)
        strcpy(said, "");
    for (uint32_t i = 0; said && i < models->absent_count; i++)
        if (strcmp(models->absent[i].name, name) == 0)
            strcpy(said, models->absent[i].reason);
    server_models_unlock(rig->server);
    return place;
}

static inline int rig_set_up(void **state) {
    struct control_rig *rig = calloc(1, sizeof(*rig));
    struct accelerator_group cpu = {.kind = ACCELERATOR_CPU, .count = 1, .type = "cpu"};
    struct deployment_options how = {.groups = &cpu, .group_count = 1};
    struct sy_error err = {""};
    temp_folder(rig->folder);
    rig->path = rig->folder;
    rig->control = (struct repository_control){
        .mode = CONTROL_EXPLICIT,
        .from = {.paths = &rig->path, .count = 1},
        .look_every_ns = 3600 * NS_PER_S,
        .models_max = RIG_MODELS,
    };
    if (deployment_from_repositories(&rig->deployment, &rig->control, &how, &err) < 0)
        fail_msg("%s", err.text);
    rig->control.how[0].batch_max = 2; /* little is measured */
    if (rig_measuring) {
        rig->control.how[0].progress = rig_progress;
        rig->control.how[0].force = true; /* each load measures */
    }
    struct server_config config = {
        .models = rig->deployment.models,
        .model_count = rig->deployment.model_count,
        .control = &rig->control,
        .accelerators = rig->deployment.accelerators,
        .type_count = rig->deployment.type_count,
        .model_threads = 1,
        .rank_threads = 1,
        .frontends = 1,
        .policy = &policy_deferred,
        .host = "127.0.0.1",
        .grpc_port = -1,
        .metrics_port = -1,
        .queue_max = 64,
    };
    if (server_start(&rig->server, &config, &err) < 0)
        fail_msg("%s", err.text);
    while (!server_is_ready(rig->server))
        rig_wait();
    *state = rig;
    return 0;
}

static inline int rig_tear_down(void **state) {
    struct control_rig *rig = *state;
    int rc = rig->server ? server_stop(rig->server, 0, 60 * NS_PER_S) : 0;
    deployment_free(&rig->deployment);
    rc = folder_remove(rig->folder) | rc;
    free(rig);
    return rc;
}
