import { createServer } from 'node:http'
import { readBody, send } from './answer.ts'
import { askNode } from './ask.ts'
import { serve } from './serve.ts'

// Parses and writes anew what is asked and what is answered, as a proxy that looks at both must.

serve(
  createServer(async (req, res) => {
    const { body } = await askNode(JSON.stringify(JSON.parse(await readBody(req))))
    send(res, JSON.stringify(await body.json()))
  }),
)
