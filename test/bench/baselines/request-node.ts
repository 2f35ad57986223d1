import { Agent, request } from 'undici'
import type { Dispatcher } from 'undici'

const agent = new Agent()
const nodeUrl = process.argv[2] ?? ''

/** Sends a request to the node whose URL is the argument of this process. */
export const requestNode = (body: string): Promise<Dispatcher.ResponseData> =>
  request(nodeUrl, { dispatcher: agent, method: 'POST', headers: { 'content-type': 'application/json' }, body })
