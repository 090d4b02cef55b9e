/* http_head.h - what the headers of a request say that matters here, and the faults that make it unsafe.
 *
 * Where a proxy and a server understand a head differently, one of them may take for a request what the other takes for
 * a body. llhttp, which parses the head, refuses most such heads: lengths that conflict or come together with a
 * transfer encoding, lines that do not end in CR LF, folded headers, blanks in names. Those that it lets through are
 * refused here. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/bulk/inflate.h"
#include "front/net/auth.h"

#define HEADER_ABSENT        (-1)
#define HTTP_HEAD_BYTES_MAX  ((size_t)16 * 1024)
#define HTTP_VERSION_UNKNOWN "this server speaks HTTP/1.1 and HTTP/1.0"
#define HTTP_FOREIGN         "a page of another site may not do this: Origin is not the server that Host names"
#define AUTHORITY_BYTES      264 /* of a host's name and its port, terminated */

struct http_head {
    int64_t content_length; /* HEADER_ABSENT: none */
    int64_t json_bytes;     /* Inference-Header-Content-Length, or INFER_NO_HEADER */
    bool host;
    bool chunked;
    bool expects_continue;
    bool authorized;             /* a header carries one of the tokens */
    uint32_t credentials;        /* headers that were compared with them */
    enum body_encoding encoding; /* of the body */
    enum body_encoding accepts;  /* for the answer */
    bool foreign;                /* a browser sent it for a page of another site */
    const char *fault;           /* NULL, or why the request is refused and its connection closed, */
    unsigned fault_status;       /* with this status */
    /* Whom the request is for, and whose page sent it; "" if there is none, or it is too long. */
    char host_name[AUTHORITY_BYTES], origin_name[AUTHORITY_BYTES];
    bool origin;
};

void http_head_begin(struct http_head *head);
/* A header; the blanks around its value do not count. Tokens come as `Authorization: Bearer TOKEN` or `X-Api-Key:
 * TOKEN`; with `auth` NULL none is looked for. */
void http_head_field(struct http_head *head, const struct auth *auth, const char *name, size_t name_length,
                     const char *value, size_t length);
/* All have come, of a request of HTTP/`major`.`minor`. */
void http_head_end(struct http_head *head, unsigned major, unsigned minor);

/* Decodes a path as it stands in a request: cuts it off at '?', and replaces `%` and two digits by the byte that they
 * mean. A path with an escaped zero stays as it is, and names nothing: decoded, it would end there, while a proxy has
 * seen what follows. In place; terminates it. */
void http_path_decode(char *path);
