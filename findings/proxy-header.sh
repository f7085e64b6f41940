#!/bin/sh
# proxy-protocol-js 4.0.6 (Node.js): the extensions of a PROXY v2 header are given to the application as the first
# bytes of the connection, and the shortest v1 header is refused.
#
# Seen: a v2 header for TCP over IPv4 with a TLV of 5 bytes, followed by "GET /": the addresses are right and the data
# is the TLV and then "GET /". HAProxy's send-proxy-v2-ssl sends such TLVs with every connection. The line
# "PROXY UNKNOWN\r\n" ends in an error.
# Expected: "GET /" for both. HAProxy's proxy-protocol.txt, section 2.2: the length field covers addresses and TLVs,
# and a receiver may skip these bytes or interpret them; section 2.1: UNKNOWN stands for any other kind of
# connection, and the rest of its line may be omitted.
. "$(dirname "$(realpath "$0")")/lib"
npm_packages proxy-protocol-js@4.0.6
cat >show.mjs <<'JS'
import proxy from "proxy-protocol-js";

const header = Buffer.from([
    ...Buffer.from("\r\n\r\n\0\r\nQUIT\n"),
    0x21, 0x11, 0, 17, // version 2, PROXY; TCP over IPv4; 17 bytes follow
    192, 0, 2, 1, 192, 0, 2, 2, 3, 232, 0, 80,
    0xe0, 0, 2, ...Buffer.from("hi"), // a TLV of the range for custom use
]);
const parsed = proxy.V2ProxyProtocol.parse(new Uint8Array(Buffer.concat([header, Buffer.from("GET /")])));
console.log("v2 data:", JSON.stringify(Buffer.from(parsed.data).toString("latin1")));
try {
    console.log("v1 data:", proxy.V1ProxyProtocol.parse("PROXY UNKNOWN\r\nGET /").data);
} catch (error) {
    console.log("v1:", error.message);
}
JS
verdict "v2 data: \"à\\u0000\\u0002hiGET /\"
v1: given data isn't suitable for V1 PROXY protocols definition" "$(timeout 20 node show.mjs 2>&1)"
