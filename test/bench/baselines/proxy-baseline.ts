import { createServer } from 'node:http'
import { readBody, sendJson } from './baseline-server.ts'
import { requestNode } from './request-node.ts'
import { listenAndAnnounce } from './baseline-listen.ts'

// Parses and writes anew what is asked and what is answered, as a proxy that looks at both must.

listenAndAnnounce(
  createServer(async (req, res) => {
    const { body } = await requestNode(JSON.stringify(JSON.parse(await readBody(req))))
    sendJson(res, JSON.stringify(await body.json()))
  }),
)
