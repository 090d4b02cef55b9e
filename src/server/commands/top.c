/* top.c - `symphony top`: how a server does, again and again, on a terminal. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/container.h"
#include "server/commands/cli.h"
#include "server/commands/frontends_visit.h"
#include "server/commands/metrics_visit.h"
#include "server/commands/top_screen.h"

#define COLUMNS_PLAIN 160
#define WAIT_MS       200
#define STATE_MOST    ((size_t)64 << 20)
#define ONCE_LEAST_S  2 /* what is shown once is of at least so long, */
#define ONCE_MOST_S   6 /* and not of all the time since somebody looked last */
#define FILTER_MOST   60
#define AGAIN_NS      (2 * NS_PER_S) /* time until a server that was lost is asked again */

enum colour_choice { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

struct top_settings {
    struct metrics_visit_settings visit;
    bool once, json;
    int sort, colour;
    const char *model;
    int64_t limit;
};

#define SORTS "bad|name|rate|late|refused|queued|batch|busy"
static const char *const sorts[] = {"bad", "name", "rate", "late", "refused", "queued", "batch", "busy"};

static const struct option_row rows[] = {
    OPTION_FLAG(struct top_settings, once, "once", "show it once, as text, and end"),
    OPTION_FLAG(struct top_settings, json, "json", "show it once, as the server says it (docs/observe.md)"),
    OPTION_CHOICE(struct top_settings, sort, "sort", SORTS, "order of the models"),
    OPTION_TEXT(struct top_settings, model, "model", "TEXT", "only models whose names have this in them"),
    OPTION_INT(struct top_settings, limit, "limit", "N", 1, 10000, "models of a list that is no screen"),
    OPTION_CHOICE(struct top_settings, colour, "color", "auto|always|never",
                  "auto: on a terminal, unless NO_COLOR is set"),
    METRICS_VISIT_OPTIONS(struct top_settings, visit),
    METRICS_VISIT_TIMEOUT(struct top_settings, visit),
    OPTION_END,
};

static const struct options options = {
    .command = "top",
    .usage = "URL [OPTION]...",
    .intro =
        "Shows what a server does, twice a second: models (rate, good, late, refused, queue, batch, latency),\n"
        "accelerators, links, and how many accelerators the load needs. In a cluster ask the scheduler that leads.\n"
        "If standard output is no terminal, it writes lines: of all models, and of each.\n" METRICS_VISIT_URL,
    .notes = "Keys:\n"
             "  q  ends                          arrows, page keys  other models\n"
             "  s  the next order                /  only models whose names have a text in them\n"
             "  b n r l f u z y by bad, name, rate, late, refused, queued, batch, busy\n"
             "  a  each accelerator, or each type         space  stops, and goes on\n\n"
             "Example:\n"
             "  symphony top localhost:8002 --sort rate",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "URL",
};

/* What is shown, and how. */
struct top {
    struct top_settings settings;
    struct metrics_visit *visit;
    struct frontends_visit frontends; /* of a cluster's scheduler */
    struct text heard;                /* of the stream: what is no whole event yet */
    json_t *state;                    /* newest state; NULL: none yet */
    bool fresh;                       /* it was not shown yet */
    bool screen;                      /* standard output and input are a terminal */
    struct termios before;
    int columns, height;
    int first, shown; /* first model, and how many the screen has room for */
    bool accelerators, paused, typing, asked, ended;
    char filter[FILTER_MOST + 1];
    char note[600];   /* why the server cannot be asked; "": it can */
    int64_t again_ns; /* time at which it is asked again */
};

static volatile sig_atomic_t told_to_end, resized;

static void on_signal(int number) {
    if (number == SIGWINCH)
        resized = 1;
    else
        told_to_end = 1;
}

/* ---- the server ---- */

/* Takes the newest whole event of the stream. */
static void heard_take(void *context, const char *data, size_t bytes) {
    struct top *t = context;
    char *end, *last = NULL;
    text_append(&t->heard, data, bytes);
    if (t->heard.failed || t->heard.length > STATE_MOST) {
        text_clear(&t->heard);
        return;
    }
    char *at = t->heard.data, *over = at + t->heard.length;
    for (; (end = memmem(at, (size_t)(over - at), "\n\n", 2)); at = end + 2)
        last = at;
    if (!last)
        return;
    end = at - 2;
    json_t *state = strncmp(last, "data: ", 6) == 0 ? json_loadb(last + 6, (size_t)(end - last - 6), 0, NULL) : NULL;
    if (state && !t->paused) {
        json_decref(t->state);
        t->state = state;
        t->fresh = true;
    } else {
        json_decref(state);
    }
    t->heard.length = (size_t)(over - at);
    memmove(t->heard.data, at, t->heard.length);
}

/* Asks for a stream of what the view has room for. */
static int ask(struct top *t, struct sy_error *err) {
    struct text path = {0};
    bool models = t->screen;
    text_printf(&path, "/v2/symphony/state?stream&sort=%s&limit=%d&accelerators=%d", sorts[t->settings.sort],
                models ? t->first + t->height : (int)t->settings.limit, t->accelerators || !t->screen ? 64 : 0);
    if (*t->filter)
        text_put(&path, "&model=");
    for (const char *c = t->filter; *c; c++)
        text_printf(&path, "%%%02x", (unsigned char)*c);
    text_clear(&t->heard);
    t->asked = true;
    int rc = metrics_visit_ask(t->visit, text_end(&path), heard_take, t, err);
    text_free(&path);
    return rc;
}

/* ---- the terminal ---- */

static void size_read(struct top *t) {
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    t->columns = known ? size.ws_col : t->screen ? 80 : COLUMNS_PLAIN;
    t->height = known ? size.ws_row : 24;
}

static void screen_begin(struct top *t) {
    struct termios raw;
    tcgetattr(STDIN_FILENO, &t->before);
    raw = t->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs("\033[?1049h\033[?25l", stdout); /* the other screen, without a cursor */
}

static void screen_end(struct top *t) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
}

static bool coloured(const struct top *t) {
    const char *no = getenv("NO_COLOR");
    return t->settings.colour == COLOUR_ALWAYS || (t->settings.colour == COLOUR_AUTO && t->screen && !(no && *no));
}

static void show(struct top *t) {
    struct text out = {0};
    char note[1024];
    int models = (int)json_integer_value(json_object_get(t->state, "models_matching"));
    if (t->typing)
        snprintf(note, sizeof(note), "models with: %s_", t->filter);
    else
        snprintf(note, sizeof(note),
                 "%s%s%sq ends, s sorts (%s), / filters%s%s, a accelerators, space stops; %d-%d of %d", t->note,
                 *t->note ? " | " : "", t->paused ? "stopped | " : "", sorts[t->settings.sort], *t->filter ? ": " : "",
                 t->filter, models ? t->first + 1 : 0, t->first + t->shown, models);
    const struct top_view view = {.columns = t->columns,
                                  .rows = t->height,
                                  .colours = coloured(t),
                                  .accelerators = t->accelerators,
                                  .first = t->first,
                                  .note = note};
    text_put(&out, "\033[H");
    t->shown = top_screen_put(&out, t->state, &view);
    text_put(&out, "\033[J");
    fwrite(out.data, 1, out.length, stdout);
    fflush(stdout);
    text_free(&out);
    t->fresh = false;
}

/* ---- keys ---- */

static void scroll(struct top *t, int by) {
    int models = (int)json_integer_value(json_object_get(t->state, "models_matching"));
    int most = models > t->shown ? models - t->shown : 0;
    t->first = t->first + by < 0 ? 0 : t->first + by > most ? most : t->first + by;
    t->asked = false;
}

static void key_typed(struct top *t, char key) {
    size_t length = strlen(t->filter);
    if (key == '\n' || key == '\r')
        t->typing = false;
    else if (key == 27)
        t->typing = (t->filter[0] = '\0');
    else if ((key == 127 || key == 8) && length > 0)
        t->filter[length - 1] = '\0';
    else if (key >= ' ' && key < 127 && length < FILTER_MOST)
        memcpy(t->filter + length, (char[]){key, '\0'}, 2);
    t->first = 0;
    t->asked = false;
}

static void key_pressed(struct top *t, char key) {
    static const char orders[] = "bnrlfuzy";
    const char *order = memchr(orders, key, sizeof(orders) - 1);
    if (key == 'q' || key == 3) {
        t->ended = true;
    } else if (key == 's' || order) {
        t->settings.sort = order ? (int)(order - orders) : (t->settings.sort + 1) % (int)ARRAY_COUNT(sorts);
        t->first = 0;
        t->asked = false;
    } else if (key == '/') {
        t->typing = true;
    } else if (key == 'a') {
        t->accelerators = !t->accelerators;
        t->asked = false;
    } else if (key == ' ') {
        t->paused = !t->paused;
    }
}

/* Reads what was typed; escape sequences of arrows and page keys come whole. */
static void keys_read(struct top *t) {
    static const struct {
        const char *sequence;
        int rows, pages;
    } moves[] = {{"\033[A", -1, 0}, {"\033[B", 1, 0},   {"\033OA", -1, 0},
                 {"\033OB", 1, 0},  {"\033[5~", 0, -1}, {"\033[6~", 0, 1}};
    char keys[64];
    ssize_t n = read(STDIN_FILENO, keys, sizeof(keys) - 1);
    if (n <= 0) {
        t->ended = n == 0; /* the terminal is gone */
        return;
    }
    keys[n] = '\0';
    for (const char *key = keys; *key;) {
        unsigned m = 0;
        while (m < ARRAY_COUNT(moves) && strncmp(key, moves[m].sequence, strlen(moves[m].sequence)) != 0)
            m++;
        if (m < ARRAY_COUNT(moves)) {
            scroll(t, moves[m].rows + moves[m].pages * (t->shown > 1 ? t->shown : 1));
            key += strlen(moves[m].sequence);
        } else {
            (t->typing ? key_typed : key_pressed)(t, *key++);
        }
    }
    t->fresh = t->state != NULL;
}

/* ---- the three ways ---- */

/* What the server is asked has changed, or it was lost. */
static int again(struct top *t, int rc, struct sy_error *err) {
    if (rc <= 0 && t->asked) {
        snprintf(t->note, sizeof(t->note), "%s", rc < 0 ? err->text : "the server has ended the stream");
        t->asked = false;
        t->again_ns = clock_now_ns() + AGAIN_NS;
        t->fresh = t->state != NULL;
    }
    return !t->asked && clock_now_ns() >= t->again_ns ? ask(t, err) : 0;
}

static int watch(struct top *t, struct sy_error *err) {
    int rc = ask(t, err);
    while (rc >= 0 && !t->state && !told_to_end && (rc = metrics_visit_wait(t->visit, -1, WAIT_MS, err)) > 0) {
    }
    if (rc < 0 || !t->state) /* a server that never answered is a mistake of the caller */
        return rc;
    screen_begin(t);
    while (rc >= 0 && !t->ended && !told_to_end) {
        struct pollfd typed = {.fd = STDIN_FILENO, .events = POLLIN};
        if (resized) {
            resized = 0;
            size_read(t);
            t->asked = false;
            t->fresh = true;
        }
        if (t->fresh) {
            frontends_visit_add(&t->frontends, t->state);
            show(t);
        }
        rc = metrics_visit_wait(t->visit, STDIN_FILENO, WAIT_MS, err);
        if (rc > 0)
            t->note[0] = '\0';
        if (poll(&typed, 1, 0) > 0)
            keys_read(t);
        rc = again(t, rc, err);
    }
    screen_end(t);
    return rc;
}

static void print_once(struct top *t) {
    struct text out = {0};
    const struct top_view view = {.columns = t->columns, .colours = coloured(t), .accelerators = true};
    if (t->settings.json) {
        cli_json_print(json_incref(t->state), JSON_REAL_PRECISION(9));
    } else {
        top_screen_put(&out, t->state, &view);
        fwrite(out.data, 1, out.length, stdout);
        putchar('\n');
    }
    text_free(&out);
}

static int print(struct top *t, bool once, struct sy_error *err) {
    int rc = ask(t, err);
    while (rc >= 0 && !told_to_end && (rc = metrics_visit_wait(t->visit, -1, WAIT_MS, err)) > 0) {
        if (!t->fresh)
            continue;
        t->fresh = false;
        frontends_visit_add(&t->frontends, t->state);
        double of_s = json_number_value(json_object_get(t->state, "window_s"));
        if (once && of_s >= ONCE_LEAST_S && of_s <= ONCE_MOST_S) {
            print_once(t);
            return 0;
        }
        if (once)
            continue;
        struct text out = {0};
        struct tm tm;
        char at[32];
        time_t now = time(NULL);
        gmtime_r(&now, &tm);
        strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm);
        top_lines_put(&out, t->state, at);
        fwrite(out.data, 1, out.length, stdout);
        text_free(&out);
        if (fflush(stdout)) /* nobody reads any more */
            return 0;
    }
    return rc == 0 && !told_to_end ? error_set(err, -EIO, "the server has ended the stream") : rc < 0 ? rc : 0;
}

static int top_run(int argc, char **argv) {
    struct top t = {.settings = {.visit = {.timeout_s = 10}, .limit = 20}};
    struct sy_error err;
    struct sigaction action = {.sa_handler = on_signal};
    int arguments, status = options_parse(&options, argc, argv, &t.settings, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    log_set_level(LOG_WARN);
    bool once = t.settings.once || t.settings.json;
    t.screen = !once && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    size_read(&t);
    if (t.settings.model)
        snprintf(t.filter, sizeof(t.filter), "%s", t.settings.model);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGWINCH, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    t.frontends = (struct frontends_visit){.settings = &t.settings.visit, .url = argv[1]};
    int rc = metrics_visit_open(&t.visit, &t.settings.visit, argv[1], &err);
    if (rc == 0)
        rc = t.screen ? watch(&t, &err) : print(&t, once, &err);
    metrics_visit_close(t.visit);
    frontends_visit_end(&t.frontends);
    json_decref(t.state);
    text_free(&t.heard);
    if (rc < 0)
        fprintf(stderr, "symphony top: %s\n", err.text);
    return rc >= 0 ? CLI_OK : rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
}

const struct cli_command cli_top = {
    .name = "top",
    .summary = "what a server does now: models, accelerators, what is refused and why",
    .run = top_run,
};
