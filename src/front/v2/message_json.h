/* message_json.h - writes a protobuf message as JSON, so that the answers of both protocols are composed only once.
 *
 * The JSON looks as Triton's HTTP answers: fields have their names in the .proto, 64-bit integers are numbers, enums
 * names, maps objects. Messages and choices that are not set are left out, with `brief` empty strings, too. Pure. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "core/util/text.h"

void message_json_put(struct text *text, const ProtobufCMessage *message, bool brief);
