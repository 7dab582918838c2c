# One message, one JSON text on one line, and what is answered to it.
#
# `value` walks the text and keeps what stands at each place as it is written: RAW["payload.event"] is `"tool_result"`,
# with its quotes, and COUNT["payload.data.content"] is how many items the list has. Nothing is unescaped, since all that
# is taken over goes back into JSON.

function skip() {
    while (at <= size && index(" \t\r", substr(text, at, 1))) at++
}

function name(    begun, c) {
    begun = ++at
    while (at <= size && (c = substr(text, at, 1)) != "\"") at += (c == "\\") ? 2 : 1
    at++
    return substr(text, begun, at - begun - 1)
}

function value(path,    begun, c, n, key) {
    skip()
    begun = at
    c = substr(text, at, 1)
    if (c == "{" || c == "[") {
        n = 0
        at++
        skip()
        if (index("]}", substr(text, at, 1))) at++
        else do {
            skip()
            key = n
            if (c == "{") { key = name(); skip(); at++ }
            value(path == "" ? key : path "." key)
            n++
            skip()
        } while (substr(text, at++, 1) == ",")
        COUNT[path] = n
    }
    else if (c == "\"") name()
    else while (at <= size && !index(",]} \t\r", substr(text, at, 1))) at++
    RAW[path] = substr(text, begun, at - begun)
}

function say(type, id, payload) {
    print "{\"id\":" id ",\"version\":\"1.0\",\"type\":\"" type "\",\"payload\":" payload "}"
}

function result(id, line, failed) {
    say("tool_result", id, "{\"call_id\":" id ",\"output\":{\"content\":[{\"type\":\"text\",\"text\":" line \
        "}]},\"is_error\":" failed "}")
}

function lines(raw) {
    if (raw == "" || raw == "\"\"") return 0
    gsub(/\\\\/, "", raw)
    return gsub(/\\n/, "", raw) + 1
}

{
    text = $0
    size = length(text)
    at = 1
    value("")
    id = RAW["id"]
    type = RAW["type"]

    if (type == "\"tool_call\"") {
        path = RAW["payload.input.path"]
        if (path == "") path = "\".\""
        # The host answers under the id of this question, so the id says later whose call it was.
        say("host_call", id, "{\"call_id\":" id ",\"capability\":\"read\",\"method\":\"fs\",\"params\":" \
            "{\"op\":\"list\",\"path\":" path "}}")
    }
    else if (type == "\"host_result\"") {
        if (RAW["payload.is_error"] == "true") result(id, RAW["payload.error.message"], "true")
        else result(id, "\"" COUNT["payload.output.entries"] "\"", "false")
    }
    else if (type == "\"event_hook\"" && RAW["payload.event"] == "\"tool_result\"") {
        content = RAW["payload.data.content"]
        n = lines(RAW["payload.data.content.0.text"])
        more = "{\"type\":\"text\",\"text\":\"(" n (n == 1 ? " line" : " lines") ")\"}"
        content = substr(content, 1, length(content) - 1) (COUNT["payload.data.content"] ? "," : "") more "]"
        say("event_hook", id, "{\"event\":\"tool_result\",\"data\":{\"result\":{\"content\":" content "}}}")
    }
}
