import { createServer } from 'node:http'
import { respond, readBody, sendJson } from './baseline-server.ts'
import { listenAndAnnounce } from './baseline-listen.ts'

// An HTTP server with nothing in it.

listenAndAnnounce(createServer(async (req, res) => sendJson(res, respond(await readBody(req)))))
