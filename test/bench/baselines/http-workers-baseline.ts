import cluster from 'node:cluster'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { announce, listen, readBody, respond, sendJson } from './baseline-server.ts'

// The bare HTTP server in two workers of node:cluster: what the same load costs more in two processes, whatever they do.

const workerCount = 2

if (cluster.isPrimary) {
  const workers = Array.from({ length: workerCount }, () => cluster.fork())
  const [[{ port }]] = (await Promise.all(workers.map(worker => once(worker, 'listening')))) as [[{ port: number }]] // as cluster promises
  announce(port)
} else await listen(createServer(async (req, res) => sendJson(res, respond(await readBody(req)))))
