import { createServer } from 'node:http'
import Koa from 'koa'
import { listenAndAnnounce, readBody, respond, sendJson } from './baseline-server.ts'

// http-baseline.ts on Koa, without any other middleware: what Koa itself costs.

const app = new Koa()
app.use(async context => {
  context.respond = false // as in the gateway
  sendJson(context.res, respond(await readBody(context.req)))
})
listenAndAnnounce(createServer(app.callback()))
