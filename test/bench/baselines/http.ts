import { createServer } from 'node:http'
import { answer, readBody, send } from './answer.ts'
import { serve } from './serve.ts'

// An HTTP server with nothing in it.

serve(createServer(async (req, res) => send(res, answer(await readBody(req)))))
