/* test_infer_metrics.c - the steps of ensembles, copied and then written. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "front/request/ensemble_plan.h"
#include "front/request/infer_counters.h"
#include "server/stats/infer_metrics.h"

TEST(steps_are_copied_and_summed) {
    struct ensemble_step steps[] = {{.model = "first", .label = "1"}, {.model = "sec\"ond", .label = "2.1"}};
    struct ensemble *graph = calloc(1, sizeof(*graph));
    struct ensemble_plan *plan = calloc(1, sizeof(*plan));
    struct infer_counters counters[2];
    struct frontend_counters frontends[2] = {{.requests = &counters[0]}, {.requests = &counters[1]}};
    graph->steps = steps;
    graph->step_count = 2;
    plan->ensemble = graph;
    plan->part_ns[1] = 2500000;
    struct served_model models[] = {
        {.name = "plain", .version = 1},
        {.name = "set aside", .version = 2, .ensemble = graph}, /* it has no plan */
        {.name = "pair", .version = 3, .ensemble = graph, .plan = plan},
    };
    uint32_t listed[] = {2, 0, 1}, count;
    for (int f = 0; f < 2; f++) {
        assert_int_equal(infer_counters_init(&counters[f], 3), 0);
        if (f == 0)
            continue; /* the other frontend had no request of it */
        struct step_counters *of = infer_counters_steps(&counters[f], 2);
        of->items[1] = 12345678901;
        of->ended[1] = 7;
        of->took_ns[1] = 1500000000;
    }
    struct shown_step *shown = infer_metrics_steps(
        frontends, 2, &(struct model_index){.models = models, .listed = listed, .count = 3}, &count);
    assert_int_equal(count, 4);
    memset(models, 0, sizeof(models)); /* the places get other models */
    struct text text;
    text_init(&text, NULL, 0);
    infer_metrics_render_steps(shown, count, &text);
    const char *page = text_end(&text);
    static const char *const rows[] = {
        "symphony_ensemble_step_items_total{model=\"pair\",version=\"3\",step=\"1\",step_model=\"first\"} 0\n",
        "symphony_ensemble_step_items_total{model=\"pair\",version=\"3\",step=\"2.1\",step_model=\"sec\\\"ond\"} "
        "12345678901\n",
        "symphony_ensemble_steps_total{model=\"pair\",version=\"3\",step=\"2.1\",step_model=\"sec\\\"ond\"} 7\n",
        "symphony_ensemble_step_seconds_total{model=\"pair\",version=\"3\",step=\"2.1\",step_model=\"sec\\\"ond\"} "
        "1.5\n",
        "symphony_ensemble_step_part_seconds{model=\"pair\",version=\"3\",step=\"2.1\",step_model=\"sec\\\"ond\"} "
        "0.0025\n",
        "symphony_ensemble_steps_total{model=\"set aside\",version=\"2\",step=\"1\",step_model=\"first\"} 0\n",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strstr(page, rows[i]))
            fail_msg("no %s in %s", rows[i], page);
    assert_null(strstr(page, "step_part_seconds{model=\"set aside\""));
    text_clear(&text);
    infer_metrics_render_steps(shown, 0, &text);
    assert_int_equal(text.length, 0);
    text_free(&text);
    free(shown);
    for (int f = 0; f < 2; f++)
        infer_counters_destroy(&counters[f]);
    free(plan);
    free(graph);
}
