import { createServer } from 'node:http'
import Koa from 'koa'
import { answer, readBody, send } from './answer.ts'
import { serve } from './serve.ts'

// The same as http.ts under Koa, which has nothing else to do: what an application pays for being one.

const app = new Koa()
app.use(async context => {
  context.respond = false // as in the gateway
  send(context.res, answer(await readBody(context.req)))
})
serve(createServer(app.callback()))
