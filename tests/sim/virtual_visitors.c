/* virtual_visitors.c - people at a cluster: `symphony status`, `drain`, `cordon` and `uncordon`, as processes that ask
 * and leave. */
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
    char join[128], member[24], timeout[24];
    char *argv[6];
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

/* `last`: the last word of the command line. */
static void visit(const struct cli_command *command, const char *last, bool there) {
    CHECK_LT(count, VISITORS_MAX);
    struct visitor *v = &visitors[count++];
    *v = (struct visitor){.command = command, .there = there};
    cluster_join(v->join, sizeof(v->join));
    snprintf(v->member, sizeof(v->member), "%s", last);
    snprintf(v->timeout, sizeof(v->timeout), "--timeout=%g", there && !cluster.swallows ? PATIENCE_S : HASTE_S);
    char *words[] = {(char *)(uintptr_t)command->name, v->join, v->timeout, v->member};
    for (v->argc = 0; v->argc < (int)ARRAY_COUNT(words); v->argc++)
        v->argv[v->argc] = words[v->argc];
    virtual_trace("somebody: %s %s", command->name, last);
    v->process = virtual_start(cluster.clients_host, "visitor", visitor_main, v);
}

void visitor_looks(bool there) {
    visit(&cli_status, "--json", there);
}

void visitor_drains(const struct virtual_role *role) {
    visit(&cli_drain, role->name, false);
}

void visitor_cordons(const struct virtual_role *role, bool cordon, bool there) {
    visit(cordon ? &cli_cordon : &cli_uncordon, role->name, there);
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
