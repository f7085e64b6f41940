#!/bin/sh
# cacheable-request 13.0.19 (Node.js): a second POST to a URL is answered from the cache and never sent.
#
# Seen: the server answers each POST with "Cache-Control: max-age=60". The first POST carries "first order"; the
# second, to the same URL, "second order": its answer is that of the first and the server has seen one request. After a
# PUT to a URL a GET still gives what was cached before.
# Expected: two requests. RFC 9110 section 9.3.3: a POST request cannot be satisfied by a cached POST response, because
# POST is potentially unsafe; RFC 9111 section 4.4: a cache MUST invalidate the target URI after a successful PUT.
. "$(dirname "$(realpath "$0")")/lib"
npm_packages cacheable-request@13.0.19
cat >show.mjs <<'JS'
import http from "node:http";
import CacheableRequest from "cacheable-request";

let orders = 0;
const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece));
    request.on("end", () => {
        if (request.method !== "GET") orders += 1;
        response.writeHead(200, { "Cache-Control": "max-age=60" });
        response.end(`${request.method} ${body} (${orders} changes seen)`);
    });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const cached = new CacheableRequest(http.request).request();
const send = (method, path, body) =>
    new Promise((done, failed) => {
        const options = { protocol: "http:", hostname: "127.0.0.1", port: server.address().port, path, method };
        cached(options, async (response) => {
            let text = "";
            for await (const piece of response) text += piece;
            done(text);
        })
            .on("request", (request) => request.end(body))
            .on("error", failed);
    });
for (const [method, path, body] of [
    ["POST", "/orders", "first order"],
    ["POST", "/orders", "second order"],
    ["GET", "/page", ""],
    ["PUT", "/page", "new page"],
    ["GET", "/page", ""],
])
    console.log(`${method} ${path} ${body}: ${await send(method, path, body)}`);
process.exit(0);
JS
verdict "POST /orders first order: POST first order (1 changes seen)
POST /orders second order: POST first order (1 changes seen)
GET /page : GET  (1 changes seen)
PUT /page new page: PUT new page (2 changes seen)
GET /page : GET  (1 changes seen)" "$(timeout 20 node show.mjs 2>&1)"
