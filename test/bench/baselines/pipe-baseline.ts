import { createServer } from 'node:http'
import { listenAndAnnounce, readBody } from './baseline-server.ts'
import { requestNode } from './request-node.ts'

// A proxy that pipes responses without reading them.

listenAndAnnounce(
  createServer(async (req, res) => {
    const { body, headers } = await requestNode(await readBody(req))
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': String(headers['content-length']) })
    body.pipe(res)
  }),
)
