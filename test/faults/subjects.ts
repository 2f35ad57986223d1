import { faults, harmless, isElsewhere, lacking, swaps } from '../support/faults.ts'
import type { Fault } from '../support/faults.ts'
import { deadUrl, startBlackHole, startFaultyNode, startPlainNode, startTlsNode } from '../support/faulty.ts'
import type { FaultyNode } from '../support/faulty.ts'
import { startNode } from '../support/node.ts'

/** What the matrix needs of a node, and sees of it. */
export type Node = Pick<FaultyNode, 'url' | 'asked' | 'stop'>

/** A kind of node that something is wrong with, or seems to be. */
export interface Subject {
  start(): Promise<Node>
  /** False where two of them are no trial: they do well. */
  readonly both?: false
  /** What the log has to say about it. */
  readonly cause?: RegExp
}

/** Nobody is there to be asked. */
const only = (url: string): Node => ({ url, asked: () => 0, stop: async () => undefined })

/** A connection to where it sends others would be one too many. */
const startRedirecting = async (): Promise<Node> => {
  const trap = await startNode({ eth_call: { result: '0xbad' } })
  const node = await startFaultyNode(socket => void socket.write(`HTTP/1.1 307 X\r\nlocation: ${trap.url}\r\ncontent-length: 0\r\n\r\n`))
  return {
    url: node.url,
    asked(method) {
      if (trap.received.length > 0) throw new Error('a redirect was followed')
      return node.asked(method)
    },
    stop: async () => void (await Promise.all([node.stop(), trap.stop()])),
  }
}

/** Before the first request: of connections, of names, of TLS. */
const unreachable: Readonly<Record<string, Subject>> = {
  'is not there': { start: async () => only(await deadUrl()), cause: /^nothing listens there/ },
  'has a name that does not resolve': { start: async () => only('http://node.invalid'), cause: /^the host name cannot be resolved/ },
  'takes connections and reads nothing': { start: () => startBlackHole() },
  'has a certificate for another host': { start: () => startTlsNode('other-host'), cause: /^TLS failed \(ERR_TLS_CERT_ALTNAME_INVALID\)/ },
  'has an expired certificate': { start: () => startTlsNode('expired'), cause: /^TLS failed \(CERT_HAS_EXPIRED\)/ },
  'has a certificate of its own': { start: () => startTlsNode('self-signed'), cause: /^TLS failed \(DEPTH_ZERO_SELF_SIGNED_CERT\)/ },
  'speaks no TLS': { start: startPlainNode, cause: /^TLS failed/ },
  'begins TLS and goes no further': { start: () => startBlackHole('https'), cause: /^(no connection in time|the node hangs)/ },
}

const each = (all: Readonly<Record<string, Fault>>, rest: Partial<Subject> = {}): Readonly<Record<string, Subject>> =>
  Object.fromEntries(Object.entries(all).map(([name, fault]) => [name, { start: () => startFaultyNode(fault), ...rest }]))

export const subjects: Readonly<Record<string, Subject>> = {
  ...each(faults),
  ...each(lacking),
  'is on another chain': { start: () => startFaultyNode(isElsewhere) },
  'swaps answers': { start: () => startFaultyNode(swaps()) },
  'redirects to another node': { start: startRedirecting, cause: /^HTTP 307/ },
  ...unreachable,
  ...each(harmless, { both: false }),
  'speaks TLS': { start: () => startTlsNode('valid'), both: false },
}

/** Of each kind one, for partners: they are asked in the same way as own nodes, but for logs. */
export const ofPartners = [
  'hangs',
  'drips an answer',
  'resets at once',
  'closes mid body',
  'says garbage',
  'answers with another id',
  'answers with two results',
  'says that its result ends early',
  'has an internal error',
  'breaks off a gzip',
  'limits us',
  'limits us in JSON',
  'says 500',
  'says 401',
  'sends another answer behind',
  'swaps answers',
  'is on another chain',
  'redirects to another node',
  'is not there',
  'has an expired certificate',
  'packs without being asked',
  'answers in slices',
  'writes in its own way',
  'speaks TLS',
] as const
