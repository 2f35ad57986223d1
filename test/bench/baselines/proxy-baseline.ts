import { createServer } from 'node:http'
import { listenAndAnnounce, readBody, sendJson } from './baseline-server.ts'
import { requestNode } from './request-node.ts'

// A proxy that parses and serializes each request and each response.

listenAndAnnounce(
  createServer(async (req, res) => {
    const { body } = await requestNode(JSON.stringify(JSON.parse(await readBody(req))))
    sendJson(res, JSON.stringify(await body.json()))
  }),
)
