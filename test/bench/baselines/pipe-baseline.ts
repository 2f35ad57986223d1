import { createServer } from 'node:http'
import { readBody } from './baseline-server.ts'
import { requestNode } from './request-node.ts'
import { listenAndAnnounce } from './baseline-listen.ts'

// Passes answers on as they come in, looking at nothing.

listenAndAnnounce(
  createServer(async (req, res) => {
    const { body, headers } = await requestNode(await readBody(req))
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': String(headers['content-length']) })
    body.pipe(res)
  }),
)
