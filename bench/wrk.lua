-- wrk's side of a workload: arguments are the pipelining depth, the bytes of the request body, and perhaps a file with
-- a cookie on each line, which requests take in turns, each with its number behind the path. The result is one line of
-- JSON. Without cookies and pipelining no Lua runs during the measurement: the one request is formatted beforehand.
function init(args)
  local depth, body = tonumber(args[1]), tonumber(args[2])
  if body > 0 then
    wrk.method, wrk.body = "POST", string.rep("x", body)
  end
  if depth > 1 then
    local batch = string.rep(wrk.format(), depth)
    request = function() return batch end
  end
  if args[3] then
    local cookies, sent = {}, 0
    for line in io.lines(args[3]) do
      cookies[#cookies + 1] = line
    end
    request = function()
      sent = sent + 1
      wrk.headers["Cookie"] = cookies[sent % #cookies + 1]
      return wrk.format(nil, wrk.path .. sent)
    end
  end
end

function done(summary, latency)
  local e, tail = summary.errors, {}
  for i = 0, 99 do
    tail[i + 1] = string.format('%.9f', latency:percentile(99 + i / 100) / 1e6)
  end
  tail[101] = string.format('%.9f', latency.max / 1e6)  -- for 100 percent wrk 4.1 has 0
  io.write(string.format(
    'BENCH {"requests": %d, "bytes": %d, "seconds": %.6f, "p50": %.9f, "p99": %.9f, "tail": [%s], ' ..
    '"errors": {"connect": %d, "read": %d, "write": %d, "status": %d, "timeout": %d}}\n',
    summary.requests, summary.bytes, summary.duration / 1e6,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6, table.concat(tail, ', '),
    e.connect, e.read, e.write, e.status, e.timeout))
end
