/* frontend_config.c - completes the configuration of frontends. */
#include "front/net/frontend_config.h"

#include "core/system/files.h"
#include "core/util/container.h"

#define BODY_BYTES_MAX    ((uint64_t)64 << 20)
#define ANSWERS_BYTES_MAX ((uint64_t)512 << 20)
#define REQUESTS_MAX      8192
#define IDLE_TIMEOUT_S    300
#define HEAD_TIMEOUT_S    15

#define BODIES_EACH      4   /* largest bodies in a frontend's memory at least: fewer would keep each other out */
#define CONNECTIONS_EACH 256 /* connections of a frontend at least, so that an eighth of them means something */

#define FILES_OTHERWISE 256 /* files that the process needs beside connections: models, shared memory, metrics */
#define CONNECTIONS_MIN 16  /* connections of a frontend if the limit of open files is very low */

/* Most connections of each of so many frontends: `wanted`, or fewer if the limit of open files allows no more. Raises
 * that limit first, as far as possible. */
static uint32_t connections_allowed(uint32_t wanted, uint32_t frontends) {
    uint64_t need = ((uint64_t)wanted + CONNECTIONS_SPARE) * frontends + FILES_OTHERWISE, allowed = files_allow(need);
    if (allowed >= need)
        return wanted;
    uint64_t room = allowed > FILES_OTHERWISE ? (allowed - FILES_OTHERWISE) / frontends : 0;
    return room > CONNECTIONS_MIN + CONNECTIONS_SPARE ? (uint32_t)room - CONNECTIONS_SPARE : CONNECTIONS_MIN;
}

struct inferences_config frontend_inferences(const struct frontend_config *config, size_t slot_bytes) {
    return (struct inferences_config){
        .port = config->port,
        .model_count = config->model_count,
        .slot_count = config->requests_max + SLOTS_SPARE,
        .slot_bytes = slot_bytes,
        .inputs_bytes_max = config->inputs_bytes_max,
        .shared = config->shared,
        .preparer = config->preparer,
        .trails_keep = config->trails_keep,
        .trails_every = config->trails_every,
        .tracing = config->tracing,
    };
}

uint32_t frontends_for(uint32_t cores, uint32_t others, uint64_t inputs_mib, uint64_t body_mib,
                       uint32_t connections_max) {
    const uint64_t limits[] = {inputs_mib / (BODIES_EACH * body_mib), connections_max / CONNECTIONS_EACH,
                               FRONTENDS_MAX};
    uint64_t count = cores > others ? cores - others : 1;
    for (unsigned i = 0; i < ARRAY_COUNT(limits); i++)
        count = count < limits[i] ? count : limits[i];
    return count > 1 ? (uint32_t)count : 1;
}

struct frontend_config frontend_config_completed(const struct frontend_config *config) {
    struct frontend_config c = *config;
    c.body_bytes_max = c.body_bytes_max ? c.body_bytes_max : BODY_BYTES_MAX;
    c.inputs_bytes_max = c.inputs_bytes_max ? c.inputs_bytes_max : INPUTS_BYTES_MAX;
    c.answers_bytes_max = c.answers_bytes_max ? c.answers_bytes_max : ANSWERS_BYTES_MAX;
    c.requests_max = c.requests_max ? c.requests_max : REQUESTS_MAX;
    c.idle_timeout_s = c.idle_timeout_s ? c.idle_timeout_s : IDLE_TIMEOUT_S;
    c.head_timeout_s = c.head_timeout_s ? c.head_timeout_s : HEAD_TIMEOUT_S;
    c.frontends = c.frontends ? c.frontends : 1;
    c.connections_max =
        connections_allowed(c.connections_max ? c.connections_max : FRONTEND_CONNECTIONS_MAX, c.frontends);
    return c;
}
