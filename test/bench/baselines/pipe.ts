import { createServer } from 'node:http'
import { readBody } from './answer.ts'
import { askNode } from './ask.ts'
import { serve } from './serve.ts'

// Passes answers on as they come in, looking at nothing.

serve(
  createServer(async (req, res) => {
    const { body, headers } = await askNode(await readBody(req))
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': String(headers['content-length']) })
    body.pipe(res)
  }),
)
