import Koa from 'koa'
import { refuse } from '../reply.ts'
import { failWhole } from '../wire/answer.ts'
import { readVisit } from './door.ts'
import type { Doors } from './door.ts'
import { nextRequestId } from './origin.ts'
import { sendAnswer, sendPreflight } from './send.ts'

/** Preflights, and requests whose method makes them no call. */
export const createOthersApp = (doors: Doors): Koa => {
  const app = new Koa()
  // Koa would write them to stderr, also that a caller has reset its connection, which every caller may do at will.
  app.on('error', (error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) doors.log.error({ err: error }, 'a request that is no call failed because of a bug')
  })
  app.use(context => {
    context.respond = false
    const { req, res } = context
    if (req.method === 'OPTIONS') return sendPreflight(req, res)
    const visit = readVisit(doors, 'http', req)
    sendAnswer(doors, res, nextRequestId(), failWhole('error' in visit ? visit : refuse('httpMethod')))
  })
  return app
}
