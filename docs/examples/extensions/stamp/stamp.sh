#!/bin/sh
# A Pi extension for a POSIX shell and awk, which every machine has.
#
# The tool `count` has the host list a folder, and says how much is in it. The hook `tool_result` puts a line below each
# result that says how many lines it has. Each message is a line: awk reads it and writes the answer.
LC_ALL=C
export LC_ALL
here=$(dirname -- "$0")

printf '%s\n' '{"id":"r","version":"1.0","type":"register","payload":{"name":"stamp","version":"1.0.0","api_version":"1.0","capability_manifest":{"schema":"pi.ext.cap.v1","capabilities":[{"capability":"read","methods":["fs"]}]},"tools":[{"name":"count","description":"Count what is in a folder","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}],"event_hooks":["tool_result"]}}'

while IFS= read -r line; do
    printf '%s\n' "$line" | awk -f "$here/stamp.awk"
done
