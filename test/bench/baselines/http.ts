import { createServer } from 'node:http'
import { respond, readBody, sendJson } from './answer.ts'
import { listenAndAnnounce } from './serve.ts'

// An HTTP server with nothing in it.

listenAndAnnounce(createServer(async (req, res) => sendJson(res, respond(await readBody(req)))))
