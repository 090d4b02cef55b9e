/* measured.c - the figures whose numbers depend on the machine: Symphony, arXiv 2308.07470. */
#include "measured.h"

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

const struct figure measured_figures[] = {
    {"symphony-table1", "Table 1: profiles of models",
     "Six models on an NVIDIA 1080Ti: l(b) = alpha b + beta fits well, and beta/alpha is over 2; a loaded model takes "
     "84 "
     "to 822 MB, and 1.5 to 6.2 GB more while it runs.",
     "Ours are other models, those that `./run models` makes, on one core of a CPU, where a convolution costs the same "
     "for "
     "each item of any batch: only the recommender gains by batches. Others are measured in a few small batches only, "
     "as "
     "larger ones gain nothing ([profiles.md](profiles.md#how-it-is-measured)). A point is the 95th percentile of its "
     "runs; the line is of least squares, and fits worse where few small batches were measured. D is of the largest batch measured, MB are 2^20 bytes.",
     profiles_run},
    {"symphony-fig11-left", "Figure 11 (left): the scheduler alone, by model threads",
     "On 32 cores of an EPYC 7502, without network and accelerators, the request rate rises in proportion to the model "
     "threads, and a single rank thread has no problem with dozens of them, as it only picks up the latest candidates.",
     "Whatever does not get a core of its own shares the last one ([stress.md](stress.md#who-runs-where)); besides the "
     "scheduler's threads there are those that hand in requests, one for every four model threads. What requests cost "
     "the "
     "threads says what more cores would bring. The paper says neither how many models there were nor their "
     "latencies; here 24 models and 1000 accelerators a model thread, a batch of b takes 50 b + 1000 us, the SLO is "
     "100 "
     "ms. The rank thread picks up the latest candidates, too, but pays for each batch, and for what each model thread "
     "says of it; and a model thread does millions of requests a second here. So with small batches one rank thread "
     "can serve a few such model threads, with larger ones more. Beyond that there are more rank threads "
     "(`--rank-threads`).",
     threads_run},
    {"symphony-fig15", "Figure 15: partitions of 800 models in 20 sub-clusters",
     "Configurations of 800 variants of the zoo's models with exponential rates; a solver and a random search have 10 "
     "s "
     "each. The solver's imbalance, (max - min)/avg over the sub-clusters, is small for memory and for load, the "
     "random "
     "search's is not.",
     "The paper's solver is CPLEX; here are `cbc`, and ours, greedy and then simulated annealing ([plan.md](plan.md)). "
     "The time is processor time, so that what else runs does not matter. Not published are the zoo's sizes (here "
     "table "
     "1's models, each variant's sizes up to a tenth more or less), the number of configurations, the weight w (here "
     "1, "
     "of imbalances that are parts of the means) and the limits (here half over the mean rate; half over the mean "
     "static "
     "memory, and the largest dynamic size on top). In equation (6) cbc gets the largest dynamic size of all models: "
     "with "
     "the largest of each sub-cluster, a row for each model and sub-cluster, it found nothing in that time.",
     partitions_run},
    {.id = NULL},
};
