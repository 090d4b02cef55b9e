/* reply.c - reads HTTP/1.x responses out of a byte stream. */
#include "lab/load/reply.h"

#include <string.h>

static int on_head(llhttp_t *parser) {
    struct reply *r = parser->data;
    r->status = llhttp_get_status_code(parser);
    r->keep_alive = llhttp_should_keep_alive(parser);
    return 0;
}

static int on_body(llhttp_t *parser, const char *bytes, size_t length) {
    struct reply *r = parser->data;
    if (r->status >= 400) {
        size_t room = sizeof(r->text) - r->text_length, part = length < room ? length : room;
        memcpy(r->text + r->text_length, bytes, part);
        r->text_length = (uint16_t)(r->text_length + part);
    }
    if (r->sink)
        r->sink(r->sink_context, bytes, length);
    return 0;
}

static int on_complete(llhttp_t *parser) {
    struct reply *r = parser->data;
    if (r->status < 200) /* "100 Continue": the response proper follows */
        return 0;
    r->state = REPLY_DONE;
    return HPE_PAUSED;
}

static const llhttp_settings_t callbacks = {
    .on_headers_complete = on_head, .on_body = on_body, .on_message_complete = on_complete};

void reply_init(struct reply *r) {
    llhttp_init(&r->parser, HTTP_RESPONSE, &callbacks);
    llhttp_set_lenient_optional_cr_before_lf(&r->parser, 1); /* simple servers end lines so */
    r->parser.data = r;
    r->state = REPLY_COMING;
    r->status = 0;
    r->begun = r->keep_alive = false;
    r->head_bytes = r->text_length = 0;
}

size_t reply_feed(struct reply *r, const char *bytes, size_t length) {
    bool head = r->status == 0;
    r->begun = true;
    if (llhttp_execute(&r->parser, bytes, length) == HPE_OK) {
        r->head_bytes += head && r->status == 0 ? length : 0;
        if (r->head_bytes > REPLY_HEAD_BYTES_MAX)
            r->state = REPLY_BROKEN;
        return length;
    }
    if (r->state == REPLY_COMING)
        r->state = REPLY_BROKEN;
    return (size_t)(llhttp_get_error_pos(&r->parser) - bytes);
}

bool reply_end(struct reply *r) {
    llhttp_finish(&r->parser);
    return r->state == REPLY_DONE;
}
