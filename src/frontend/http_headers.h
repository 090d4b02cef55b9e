/* http_headers.h - the headers of a request that matter here, read in one pass, and the faults that make it unsafe. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "frontend/auth.h"
#include "frontend/inflate.h"

#define HEADER_ABSENT       (-1)
#define HTTP_HEAD_BYTES_MAX ((size_t)16 * 1024)

/* From 0.9.77 on libmicrohttpd is as strict as we ask it to be. Those before take a bare LF for the end of a line. In
 * the head we find that out; around chunks we cannot, so a connection ends with its first chunked body: what follows is
 * not taken for a request, whatever others think where it begins. */
#define HTTP_LINES_ARE_LAX (MHD_VERSION < 0x00097701)

struct http_headers {
    int64_t content_length; /* HEADER_ABSENT: none */
    int64_t json_bytes;     /* Inference-Header-Content-Length, or INFER_NO_HEADER */
    bool chunked;
    bool expects_continue;
    bool authorized;             /* one of the tokens is there */
    enum body_encoding encoding; /* of the body */
    const char *fault;           /* NULL, or why the request is refused and its connection closed */
    unsigned fault_status;       /* 400, or 431: the head is larger than HTTP_HEAD_BYTES_MAX */
    enum body_encoding accepts;  /* for the answer */
};

/* Reads them. A fault is what two parties along the way may understand differently, so that one of them takes for a
 * request what the other takes for a body: lengths that conflict or come together with a transfer encoding, transfer
 * encodings other than chunked, blanks in names, folded lines, lines that do not end in CR LF. libmicrohttpd itself
 * takes the first length it finds; `method` and `version` are what it calls us with. Tokens come as `Authorization:
 * Bearer TOKEN` or `X-Api-Key: TOKEN`; with `auth` NULL none is looked for. */
void http_headers_read(struct http_headers *headers, struct MHD_Connection *connection, const char *method,
                       const char *version, const struct auth *auth);
/* The same of the token alone. */
bool http_authorized(struct MHD_Connection *connection, const struct auth *auth);
