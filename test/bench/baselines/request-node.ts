import { Agent, request } from 'undici'
import type { Dispatcher } from 'undici'

const agent = new Agent()
const nodeUrl = process.argv[2] ?? ''

/** Asks the node whose URL is this process's argument. */
export const requestNode = (body: string): Promise<Dispatcher.ResponseData> =>
  request(nodeUrl, { dispatcher: agent, method: 'POST', headers: { 'content-type': 'application/json' }, body })
