/* solver_cbc.c - partitions by `cbc`, of which Appendix A's equations (4) to (10) make a mixed-integer program. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"
#include "solvers.h"

#define PATH_BYTES 256

static void give_up(const char *what, const char *path) {
    fprintf(stderr, "reproduce: cannot %s '%s': %s\n", what, path, strerror(errno));
    exit(1);
}

/* Runs cbc to its end. False: it could not be run. */
static bool cbc_run(char *const arguments[]) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(&child, "cbc", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    while (!rc && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return !rc && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool cbc_found(void) {
    return cbc_run((char *[]){"cbc", "quit", NULL});
}

/* ---- the program: rates and sizes are parts of their means, so that w has no unit, as in partition.h ---- */

struct means {
    double rate, memory, dynamic_most;
};

static struct means means_of(const struct partition_problem *problem) {
    struct means means = {0};
    for (uint32_t i = 0; i < problem->models; i++) {
        const struct partition_model *model = &problem->model[i];
        means.rate += model->rate / problem->subclusters;
        means.memory += model->static_mb / problem->subclusters;
        if (model->dynamic_mb > means.dynamic_most)
            means.dynamic_most = model->dynamic_mb;
    }
    return means;
}

/* The sum of rates or of static sizes of sub-cluster j, and then the rest of its row. */
static void sum_put(FILE *to, const struct partition_problem *problem, const struct means *means, uint32_t j, bool rate,
                    const char *rest, double limit) {
    for (uint32_t i = 0; i < problem->models; i++)
        fprintf(to, "%s %.12g x%u_%u", i ? " +" : "",
                rate ? problem->model[i].rate / means->rate : problem->model[i].static_mb / means->memory, i, j);
    fprintf(to, "%s %.12g\n", rest, limit);
}

static void rows_put(FILE *to, const struct partition_problem *problem) {
    struct means means = means_of(problem);
    for (uint32_t j = 0; j < problem->subclusters; j++) {
        sum_put(to, problem, &means, j, true, " <=", problem->max_rate / means.rate); /* 5 */
        sum_put(to, problem, &means, j, false,
                " <=", (problem->max_memory_mb - means.dynamic_most) / means.memory); /* 6 */
        sum_put(to, problem, &means, j, true, " - dr <=", 1);                         /* 7 */
        sum_put(to, problem, &means, j, true, " + dr >=", 1);
        sum_put(to, problem, &means, j, false, " - dm <=", 1); /* 8 */
        sum_put(to, problem, &means, j, false, " + dm >=", 1);
    }
    for (uint32_t i = 0; i < problem->models; i++) /* 9 */
        for (uint32_t j = 0; j < problem->subclusters; j++)
            fprintf(to, "%s x%u_%u%s", j ? " +" : "", i, j, j + 1 == problem->subclusters ? " = 1\n" : "");
}

static void program_write(const char *path, const struct partition_problem *problem) {
    FILE *to = fopen(path, "w");
    if (!to)
        give_up("write", path);
    fprintf(to, "Minimize\n obj: dr + %.12g dm\nSubject To\n", problem->memory_weight); /* 4 */
    rows_put(to, problem);
    fputs("Binaries\n", to); /* 10 */
    for (uint32_t i = 0; i < problem->models; i++)
        for (uint32_t j = 0; j < problem->subclusters; j++)
            fprintf(to, " x%u_%u\n", i, j);
    fputs("End\n", to);
    bool failed = ferror(to);
    if (fclose(to) || failed)
        give_up("write", path);
}

/* ---- its solution: lines "NUMBER xI_J VALUE ..." of what is not zero ---- */

static struct partition_score solution_read(const char *path, const struct partition_problem *problem) {
    uint32_t *subcluster = memory_take(problem->models * sizeof(*subcluster)), assigned = 0, i, j;
    char line[512];
    double value;
    FILE *from = fopen(path, "r");
    while (from && fgets(line, sizeof(line), from))
        if (sscanf(line, " %*u x%u_%u %lf", &i, &j, &value) == 3 && value > 0.5 && i < problem->models &&
            j < problem->subclusters) {
            subcluster[i] = j;
            assigned++;
        }
    if (from)
        fclose(from);
    struct partition_score score = {.found = false};
    if (assigned == problem->models)
        score = partition_score(problem, subcluster);
    free(subcluster);
    return score;
}

struct partition_score cbc_solve(const struct partition_problem *problem, double limit_s) {
    const char *base = getenv("TMPDIR");
    char folder[PATH_BYTES], program[PATH_BYTES + 16], solution[PATH_BYTES + 16], limit[32];
    snprintf(folder, sizeof(folder), "%s/symphony-cbc-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder))
        give_up("make the folder", folder);
    snprintf(program, sizeof(program), "%s/program.lp", folder);
    snprintf(solution, sizeof(solution), "%s/solution", folder);
    snprintf(limit, sizeof(limit), "%g", limit_s);
    program_write(program, problem);
    cbc_run((char *[]){"cbc", program, "sec", limit, "solve", "solution", solution, NULL});
    struct partition_score score = solution_read(solution, problem);
    unlink(program);
    unlink(solution);
    rmdir(folder);
    return score;
}
