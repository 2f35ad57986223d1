import { createServer } from 'node:http'
import { listenAndAnnounce, readBody, respond, sendJson } from './baseline-server.ts'

// A bare HTTP server.

listenAndAnnounce(createServer(async (req, res) => sendJson(res, respond(await readBody(req)))))
