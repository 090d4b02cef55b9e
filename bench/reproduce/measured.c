/* measured.c - the figures whose numbers depend on the machine: of Symphony (arXiv 2308.07470), and Clockwork (OSDI
 * 2020). */
#include "measured.h"

#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

#include "core/system/thread.h"
#include "model/engine/sidecar.h"

const struct published_model published_models[PUBLISHED_MODELS] = {
    {"DenseNet121", 1.06, 10.31, 9.71, 32, 99, 2172}, {"EfficientNet", 1.56, 5.58, 3.55, 21, 88, 1519},
    {"InceptionV3", 1.96, 8.77, 4.46, 92, 230, 3386}, {"MobileNet", 1.01, 2.39, 2.36, 17, 84, 2653},
    {"ResNet50", 2.05, 5.37, 2.62, 98, 170, 2798},    {"VGG16", 2.73, 5.78, 2.11, 528, 822, 6200},
};

void report_machine(struct context *c) {
    char cpu[512];
    cpu_set_t cores;
    accelerator_type("cpu", 0, cpu, sizeof(cpu));
    thread_cores_allowed(&cores);
    report_text(c, "**Measured on** %d cores: %s.", CPU_COUNT(&cores), cpu);
}

json_t *measured_json(const char *command) {
    char program[4096], line[8400];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return NULL;
    program[length] = '\0';
    snprintf(line, sizeof(line), "export SYMPHONY='%s/symphony'; %s", dirname(program), command);
    FILE *from = popen(line, "r");
    json_t *said = from ? json_loadf(from, 0, NULL) : NULL;
    if (from)
        pclose(from);
    return said;
}

const struct figure measured_figures[] = {
    {"symphony-table1", "Table 1: profiles of models",
     "Six models on a 1080Ti: l(b) = alpha b + beta fits well, beta/alpha is over 2; a loaded model takes 84 to 822 "
     "MB, and 1.5 to 6.2 GB more while it runs.",
     "Ours are the models of `./run models` on one CPU core, where a convolution costs the same for each item. A point "
     "is the 95th percentile of its runs. D is of the largest batch measured.",
     profiles_run},
    {"symphony-fig11-left", "Figure 11 (left): the scheduler alone, by model threads",
     "On 32 cores of an EPYC 7502, without network and accelerators, the request rate rises with the model threads, "
     "and one rank thread serves dozens of them.",
     "Threads beyond the cores share the last one ([stress.md](stress.md#who-runs-where)). Models are ours: 24 models "
     "and 1000 accelerators a model thread, 50 b + 1000 us a batch, SLO 100 ms. The rank thread pays for each batch.",
     threads_run},
    {"symphony-fig15", "Figure 15: partitions of 800 models in 20 sub-clusters",
     "800 variants of the zoo's models with exponential rates; a solver and a random search have 10 s each. The "
     "solver's imbalance, (max - min)/avg, is small for memory and load.",
     "The solver is `cbc` instead of CPLEX; times are of a processor. Not published: sizes (here about table 1's), the "
     "weight w (1) and the limits (half over the means). In equation (6) cbc gets the largest dynamic size of all "
     "models: with that of each sub-cluster it "
     "found nothing.",
     partitions_run},
    {.id = NULL},
};

const struct figure measured_clockwork_figures[] = {
    {"clockwork-live", "Figures 5 to 11, live on emulated accelerators",
     "As for [figures 5 to 9 and 11](reproduction.md#clockwork-fig5). Figure 10: 99 % of the predictions of runs are "
     "too long by 144 us or less, or too short by 55 us or less; of loads by 431 and 348 us.",
     "Emulated accelerators with memory get the simulation's arrivals by `symphony bench` over HTTP, on the same cores "
     "(`bench/clockwork_live.py`). Figure 9 has a tenth of the models and of the memory. An emulated run ends by a "
     "timer, so figure 10's errors are the machine's. The last table takes the simulator's whole work for the "
     "controller's.",
     live_run},
    {.id = NULL},
};
