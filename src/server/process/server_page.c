/* server_page.c - the page for browsers (server/page), as part of the program. */
#include "core/util/container.h"
#include "front/http/metrics_endpoint.h"
#include "server/process/server_state.h"

static const unsigned char html[] = {
#include "page_index.html.inc"
};
static const unsigned char css[] = {
#include "page_page.css.inc"
};
static const unsigned char js[] = {
#include "page_page.js.inc"
};

static const struct metrics_file files[] = {
    {"/", "text/html; charset=utf-8", html, sizeof(html)},
    {"/page.css", "text/css; charset=utf-8", css, sizeof(css)},
    {"/page.js", "text/javascript; charset=utf-8", js, sizeof(js)},
};

const struct metrics_file *server_page(unsigned *count) {
    *count = ARRAY_COUNT(files);
    return files;
}
