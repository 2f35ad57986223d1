import { createServer } from 'node:http'
import Koa from 'koa'
import { respond, readBody, sendJson } from './answer.ts'
import { listenAndAnnounce } from './serve.ts'

// The same as http.ts under Koa, which has nothing else to do: what an application pays for being one.

const app = new Koa()
app.use(async context => {
  context.respond = false // as in the gateway
  sendJson(context.res, respond(await readBody(context.req)))
})
listenAndAnnounce(createServer(app.callback()))
