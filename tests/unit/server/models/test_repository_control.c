/* test_repository_control.c - orders to a real server's repository thread, without a client. */
/* Starts threads. */
#include "unit/test.h"

#include <sys/eventfd.h>

#include "front/bulk/inbox.h"
#include "front/request/repository_order.h"
#include "unit/server/models/control_rig.h"

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

/* Somebody who gives orders. */
static struct inbox home;

static int home_set_up(void **state) {
    memset(&home, 0, sizeof(home));
    home.wake_fd = eventfd(0, EFD_NONBLOCK);
    return rig_set_up(state);
}

static int home_tear_down(void **state) {
    int rc = rig_tear_down(state);
    close(home.wake_fd);
    return rc;
}

static void submit(struct control_rig *rig, enum order_kind kind, const char *name, const char *body) {
    struct repository_order order = {
        .home = &home, .kind = kind, .form = ORDER_JSON, .body = body, .body_bytes = strlen(body)};
    struct sy_error err;
    snprintf(order.name, sizeof(order.name), "%s", name);
    assert_int_equal(order_submit(rig->server->desk, &order, &err), 0);
}

/* Orders and waits; the status. */
static unsigned order(struct control_rig *rig, enum order_kind kind, const char *name, const char *body,
                      struct sy_error *err) {
    struct repository_order *back;
    submit(rig, kind, name, body);
    while (!(back = orders_returned(&home)))
        rig_wait();
    unsigned status = back->status;
    assert_null(order_next(back));
    *err = back->error;
    free(back);
    return status;
}

TEST_WITH(models_come_are_replaced_and_go, home_set_up, home_tear_down) {
    struct control_rig *rig = *state;
    struct sy_error err;
    char said[600];
    rig_put(rig, "a", 1, "mlp.onnx");
    assert_int_equal(order(rig, ORDER_LOAD, "a", "", &err), 200);
    int first = rig_place_of(rig, "a", said);
    assert_true(first >= 0);
    assert_int_equal(order(rig, ORDER_LOAD, "a", "{}", &err), 200);
    assert_int_equal(rig_place_of(rig, "a", said), first); /* as it is */
    rig_put(rig, "a", 2, "image.onnx");
    assert_int_equal(order(rig, ORDER_LOAD, "a", "{}", &err), 200);
    int second = rig_place_of(rig, "a", said);
    assert_true(second >= 0 && second != first);
    assert_int_equal(rig->deployment.models[second].version, 2);
}

TEST_WITH(what_cannot_be_loaded_leaves_what_serves, home_set_up, home_tear_down) {
    struct control_rig *rig = *state;
    struct sy_error err;
    char said[600];
    rig_put(rig, "a", 1, "mlp.onnx");
    assert_int_equal(order(rig, ORDER_LOAD, "a", "", &err), 200);
    int place = rig_place_of(rig, "a", said);
    assert_int_equal(order(rig, ORDER_LOAD, "a", "{\"parameters\":{\"config\":{\"max_batch_size\":\"x\"}}}", &err),
                     400);
    assert_int_equal(order(rig, ORDER_LOAD, "a", "{\"parameters\":{\"speed\":1}}", &err), 400);
    assert_int_equal(order(rig, ORDER_LOAD, "none", "", &err), 500);
    assert_string_equal(err.text,
                        "failed to load 'none', failed to poll from model repository: there is no model 'none' in the "
                        "repository");
    assert_int_equal(rig_place_of(rig, "a", said), place);
    assert_int_equal(order(rig, ORDER_UNLOAD, "none", "", &err), 200);
    assert_int_equal(order(rig, ORDER_UNLOAD, "a", "", &err), 200);
    do
        assert_int_equal(rig_place_of(rig, "a", said), -1);
    while (strcmp(said, "unloaded") != 0); /* its place is freed behind the order */
}

TEST_WITH(what_is_prepared_serves_once_it_is_committed, home_set_up, home_tear_down) {
    struct control_rig *rig = *state;
    struct sy_error err;
    char said[600];
    rig_put(rig, "a", 1, "mlp.onnx");
    assert_int_equal(order(rig, ORDER_PREPARE, "a", "", &err), 200);
    assert_int_equal(rig_place_of(rig, "a", said), -1);
    assert_int_equal(order(rig, ORDER_DISCARD, "a", "", &err), 200);
    assert_int_equal(order(rig, ORDER_COMMIT, "a", "", &err), 200); /* there is nothing left */
    assert_int_equal(rig_place_of(rig, "a", said), -1);
    assert_int_equal(order(rig, ORDER_PREPARE, "a", "", &err), 200);
    assert_int_equal(order(rig, ORDER_COMMIT, "a", "", &err), 200);
    int first = rig_place_of(rig, "a", said);
    assert_true(first >= 0);
    rig_put(rig, "a", 2, "image.onnx");
    for (int i = 0; i < 2 * RIG_MODELS; i++) { /* each takes the place of the one before */
        assert_int_equal(order(rig, ORDER_PREPARE, "a", "", &err), 200);
        assert_int_equal(rig_place_of(rig, "a", said), first);
    }
    assert_int_equal(order(rig, ORDER_COMMIT, "a", "", &err), 200);
    int second = rig_place_of(rig, "a", said);
    assert_true(second >= 0 && second != first);
    assert_int_equal(rig->deployment.models[second].version, 2);
}

/* What happens to the models' settings while models are being measured. */
static struct {
    char path[128]; /* of a symphony.yaml */
    int changes, most;
} editor;

static void settings_edit(void) {
    if (editor.changes >= editor.most)
        return;
    editor.changes++;
    FILE *to = fopen(editor.path, "a");
    assert_non_null(to);
    fputs(editor.changes == 1 ? "slo_ms: 77\n" : "# again\n", to);
    fclose(to);
}

static int edited_set_up(void **state) {
    rig_measuring = settings_edit;
    int rc = home_set_up(state);
    struct control_rig *rig = *state;
    snprintf(editor.path, sizeof(editor.path), "%s/a/symphony.yaml", rig->folder);
    editor.changes = 0;
    return rc;
}

static int edited_tear_down(void **state) {
    rig_measuring = NULL;
    return home_tear_down(state);
}

/* What serves is what the files say in the end. */
TEST_WITH(files_that_change_during_a_load_are_loaded_anew, edited_set_up, edited_tear_down) {
    struct control_rig *rig = *state;
    struct sy_error err;
    editor.most = 1;
    rig_put(rig, "a", 1, "mlp.onnx");
    assert_int_equal(order(rig, ORDER_LOAD, "a", "", &err), 200);
    assert_int_equal(editor.changes, 1);
    int place = rig_place_of(rig, "a", NULL);
    assert_true(place >= 0);
    assert_int_equal(rig->deployment.models[place].slo_ns, 77 * NS_PER_MS);
}

TEST_WITH(files_that_keep_changing_are_not_loaded, edited_set_up, edited_tear_down) {
    struct control_rig *rig = *state;
    struct sy_error err;
    char said[600];
    editor.most = 1000;
    rig_put(rig, "a", 1, "mlp.onnx");
    assert_int_equal(order(rig, ORDER_LOAD, "a", "", &err), 503);
    assert_string_equal(err.text, "files of model 'a' have changed while it was being loaded");
    assert_int_equal(rig_place_of(rig, "a", said), -1);
    assert_string_equal(said, err.text);
    editor.most = 0;
    assert_int_equal(order(rig, ORDER_LOAD, "a", "", &err), 200);
}

TEST_WITH(no_more_than_may_be, home_set_up, home_tear_down) {
    struct control_rig *rig = *state;
    struct sy_error err;
    char name[] = "a";
    for (int i = 0; i < RIG_MODELS; i++, name[0]++) {
        rig_put(rig, name, 1, "mlp.onnx");
        assert_int_equal(order(rig, ORDER_LOAD, name, "", &err), 200);
    }
    rig_put(rig, name, 1, "mlp.onnx");
    assert_int_equal(order(rig, ORDER_LOAD, name, "", &err), 503);
    assert_non_null(strstr(err.text, "--max-models"));
    assert_int_equal(order(rig, ORDER_UNLOAD, "a", "", &err), 200);
    assert_int_equal(order(rig, ORDER_LOAD, name, "", &err), 200);
}

/* Clients have names without end. */
TEST_WITH(names_that_are_made_up_are_forgotten, home_set_up, home_tear_down) {
    static const char *const impossible[] = {"", "..", ".a", "a/b", "a b", "a\nb", "\"", "\xff"};
    struct control_rig *rig = *state;
    static const char body[] = "{\"parameters\":{\"config\":\"{\",\"file:1/model.onnx\":\"\"}}";
    struct sy_error err;
    char name[32], said[600];
    for (size_t i = 0; i < ARRAY_COUNT(impossible); i++)
        assert_int_equal(order(rig, ORDER_LOAD, impossible[i], body, &err), 500);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "made-up-%d", i);
        assert_int_equal(order(rig, ORDER_LOAD, name, body, &err), 400);
    }
    const struct model_index *models = server_models_lock(rig->server);
    assert_in_range(models->absent_count, 1, 64);
    server_models_unlock(rig->server);
    assert_int_equal(rig_place_of(rig, name, said), -1); /* the last one is still known */
    assert_non_null(strstr(said, "the JSON is wrong"));
}

/* Carried out or refused, none is lost. */
TEST_WITH(orders_come_back_from_a_server_that_ends, home_set_up, home_tear_down) {
    struct control_rig *rig = *state;
    enum { ORDERS = 50 };
    uint32_t back = 0;
    rig_put(rig, "a", 1, "mlp.onnx");
    for (int i = 0; i < ORDERS; i++)
        submit(rig, i % 2 ? ORDER_UNLOAD : ORDER_LOAD, "a", "");
    assert_int_equal(server_stop(rig->server, 0, 60 * NS_PER_S), 0);
    rig->server = NULL;
    for (struct repository_order *o = orders_returned(&home), *next; o; o = next, back++) {
        next = order_next(o);
        assert_true(o->status == 200 || o->status == 503);
        free(o);
    }
    assert_int_equal(back, ORDERS);
}

#endif

int main(int argc, char **argv) {
    if (control_rig_child(argc, argv))
        return worker_main();
    return tests_run(NULL, NULL);
}
