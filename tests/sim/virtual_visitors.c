/* virtual_visitors.c - people at a cluster: `symphony status`, `drain`, `cordon`, `uncordon` and `rollout`, as
 * processes that ask and leave. */
#include <stdio.h>

#include "core/util/assert.h"
#include "server/commands/cli.h"
#include "sim/virtual_cluster.h"

#define VISITORS_MAX 128
#define HASTE_S      0.5
#define PATIENCE_S   2.0

static struct visitor {
    const struct cli_command *command;
    struct virtual_process *process;
    bool there;
    char join[128], last[3][24], timeout[24];
    char *argv[8];
    int argc;
} visitors[VISITORS_MAX];
static uint32_t count;

void visitors_begin(void) {
    count = 0;
}

static int visitor_main(void *visitor) {
    struct visitor *v = visitor;
    return v->command->run(v->argc, v->argv);
}

/* `last`: the last words of the command line, of which some may be NULL. */
static void visit(const struct cli_command *command, const char *const last[static 3], bool there) {
    CHECK_LT(count, VISITORS_MAX);
    struct visitor *v = &visitors[count++];
    *v = (struct visitor){.command = command, .there = there};
    cluster_join(v->join, sizeof(v->join));
    snprintf(v->timeout, sizeof(v->timeout), "--timeout=%g", there && !cluster.swallows ? PATIENCE_S : HASTE_S);
    char *words[] = {(char *)(uintptr_t)command->name, v->join, v->timeout};
    for (v->argc = 0; v->argc < (int)ARRAY_COUNT(words); v->argc++)
        v->argv[v->argc] = words[v->argc];
    for (uint32_t i = 0; i < ARRAY_COUNT(v->last) && last[i]; i++) {
        snprintf(v->last[i], sizeof(v->last[i]), "%s", last[i]);
        v->argv[v->argc++] = v->last[i];
    }
    virtual_trace("somebody: %s %s %s", command->name, last[0], last[1] ? last[1] : "");
    v->process = virtual_start(cluster.clients_host, "visitor", visitor_main, v);
}

void visitor_looks(bool there) {
    visit(&cli_status, (const char *[3]){"--json"}, there);
}

void visitor_drains(const struct virtual_role *role) {
    visit(&cli_drain, (const char *[3]){role->name}, false);
}

void visitor_cordons(const struct virtual_role *role, bool cordon, bool there) {
    visit(cordon ? &cli_cordon : &cli_uncordon, (const char *[3]){role->name}, there);
}

void visitor_rolls(const char *what, const char *share) {
    visit(&cli_rollout, (const char *[3]){"m0", what, share}, false);
}

void visitors_leave(void) {
    for (uint32_t i = 0; i < count; i++)
        virtual_kill(visitors[i].process);
}

void visitors_check(void) {
    for (uint32_t i = 0; i < count; i++) {
        const struct visitor *v = &visitors[i];
        int status = v->process->exit_status;
        if (!v->process->over)
            cluster_wrong("symphony %s, of %.3f s, has not ended", v->command->name,
                          (double)(v->process->began_ns - VIRTUAL_BEGIN_NS) / NS_PER_S);
        else if (status != CLI_OK && (v->there || status != CLI_FAILURE))
            cluster_wrong("symphony %s, of %.3f s, has ended with %d", v->command->name,
                          (double)(v->process->began_ns - VIRTUAL_BEGIN_NS) / NS_PER_S, status);
    }
}
