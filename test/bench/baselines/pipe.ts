import { createServer } from 'node:http'
import { readBody } from './answer.ts'
import { requestNode } from './ask.ts'
import { listenAndAnnounce } from './serve.ts'

// Passes answers on as they come in, looking at nothing.

listenAndAnnounce(
  createServer(async (req, res) => {
    const { body, headers } = await requestNode(await readBody(req))
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': String(headers['content-length']) })
    body.pipe(res)
  }),
)
