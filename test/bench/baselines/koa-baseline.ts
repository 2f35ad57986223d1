import { createServer } from 'node:http'
import Koa from 'koa'
import { respond, readBody, sendJson } from './baseline-server.ts'
import { listenAndAnnounce } from './baseline-listen.ts'

// The same as http.ts under Koa, which has nothing else to do: what an application pays for being one.

const app = new Koa()
app.use(async context => {
  context.respond = false // as in the gateway
  sendJson(context.res, respond(await readBody(context.req)))
})
listenAndAnnounce(createServer(app.callback()))
