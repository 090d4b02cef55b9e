/* http_head.h - the headers of a request that the frontend uses, and faults that make a request unsafe.
 *
 * Where a proxy and a server understand a head differently, one of them may take for a request what the other takes for
 * a body. llhttp, which parses the head, refuses most such heads: lengths that conflict or come together with a
 * transfer encoding, lines that do not end in CR LF, folded headers, blanks in names. This file refuses the other ones.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/bulk/inflate.h"
#include "front/net/auth.h"
#include "front/request/request_id.h"

#define HEADER_ABSENT        (-1)
#define HTTP_HEAD_BYTES_MAX  ((size_t)16 * 1024)
#define HTTP_VERSION_UNKNOWN "this server speaks HTTP/1.1 and HTTP/1.0"
#define HTTP_FOREIGN         "a page of another site may not do this: Origin is not the server that Host names"
#define AUTHORITY_BYTES      264 /* size of a host's name with its port, terminated */

struct http_head {
    int64_t content_length;      /* value of Content-Length; HEADER_ABSENT: none */
    int64_t json_bytes;          /* value of Inference-Header-Content-Length; INFER_NO_HEADER: none */
    bool host;                   /* there is a Host header */
    bool chunked;                /* the body comes in chunks */
    bool expects_continue;       /* the client waits for an interim answer before it sends the body */
    bool authorized;             /* a header carries one of the tokens */
    uint32_t credentials;        /* headers that were compared with tokens */
    enum body_encoding encoding; /* encoding of the body */
    enum body_encoding accepts;  /* encoding that the client wants for the answer */
    bool events;                 /* Accept is text/event-stream, as an EventSource sends it */
    bool foreign;                /* a browser sent it for a page of another site */
    const char *fault;           /* reason to refuse the request and close the connection; NULL: none */
    unsigned fault_status;       /* status for the refusal */
    /* Host and port of the Host header, and of the Origin header; "": the header is missing or too long. */
    char host_name[AUTHORITY_BYTES], origin_name[AUTHORITY_BYTES];
    bool origin;          /* there is an Origin header */
    struct request_id id; /* value of X-Request-Id, or else the trace's id of traceparent */
    bool named;           /* `id` comes from X-Request-Id */
    bool trail;           /* the client wants its request's times with the answer */
};

void http_head_begin(struct http_head *head);
/* Takes a header; blanks around its value do not count. Tokens come as `Authorization: Bearer TOKEN` or `X-Api-Key:
 * TOKEN`; with `auth` NULL they are ignored. */
void http_head_field(struct http_head *head, const struct auth *auth, const char *name, size_t name_length,
                     const char *value, size_t length);
/* The head is complete, of a request of HTTP/`major`.`minor`. */
void http_head_end(struct http_head *head, unsigned major, unsigned minor);

/* Decodes a path as it stands in a request: cuts it off at '?', and replaces `%` and two digits by the byte that they
 * mean. A path with an escaped zero byte is not decoded, and names nothing: decoded, it would end at the zero, although
 * a proxy has seen the rest. Works in place, and terminates the path. */
void http_path_decode(char *path);
