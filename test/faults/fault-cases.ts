import { faults, toleratedBehaviors, respondFromOtherChain, missingHistoryFaults, swapResponses } from '../support/node-faults.ts'
import type { NodeFault } from '../support/node-faults.ts'
import { unreachableUrl, startBlackHole, startFaultyNode, startPlaintextNode, startTlsNode } from '../support/faulty-node.ts'
import type { FaultyNode } from '../support/faulty-node.ts'
import { startFakeNode } from '../support/fake-node.ts'

/** What the matrix needs of a node, and sees of it. */
export type NodeUnderTest = Pick<FaultyNode, 'url' | 'requestCount' | 'stop'>

/** A kind of node that something is wrong with, or seems to be. */
export interface FaultCase {
  start(): Promise<NodeUnderTest>
  /** False where two of them are no trial: they do well. */
  readonly testBoth?: false
  /** What the log has to say about it. */
  readonly loggedCause?: RegExp
}

/** Nobody is there to be asked. */
const createUncountedNode = (url: string): NodeUnderTest => ({ url, requestCount: () => 0, stop: async () => undefined })

/** A connection to where it sends others would be one too many. */
const startRedirectingNode = async (): Promise<NodeUnderTest> => {
  const trap = await startFakeNode({ eth_call: { result: '0xbad' } })
  const node = await startFaultyNode(socket => void socket.write(`HTTP/1.1 307 X\r\nlocation: ${trap.url}\r\ncontent-length: 0\r\n\r\n`))
  return {
    url: node.url,
    requestCount(method) {
      if (trap.received.length > 0) throw new Error('a redirect was followed')
      return node.requestCount(method)
    },
    stop: async () => void (await Promise.all([node.stop(), trap.stop()])),
  }
}

/** Before the first request: of connections, of names, of TLS. */
const connectionFaultCases: Readonly<Record<string, FaultCase>> = {
  'is not there': { start: async () => createUncountedNode(await unreachableUrl()), loggedCause: /^connection refused/ },
  'has a name that does not resolve': {
    start: async () => createUncountedNode('http://node.invalid'),
    loggedCause: /^host name not resolved/,
  },
  'takes connections and reads nothing': { start: () => startBlackHole() },
  'has a certificate for another host': {
    start: () => startTlsNode('other-host'),
    loggedCause: /^TLS error \(ERR_TLS_CERT_ALTNAME_INVALID\)/,
  },
  'has an expired certificate': { start: () => startTlsNode('expired'), loggedCause: /^TLS error \(CERT_HAS_EXPIRED\)/ },
  'has a certificate of its own': { start: () => startTlsNode('self-signed'), loggedCause: /^TLS error \(DEPTH_ZERO_SELF_SIGNED_CERT\)/ },
  'speaks no TLS': { start: startPlaintextNode, loggedCause: /^TLS error/ },
  'begins TLS and goes no further': { start: () => startBlackHole('https'), loggedCause: /^(connection timed out|upstream unresponsive)/ },
}

const toFaultCases = (all: Readonly<Record<string, NodeFault>>, overrides: Partial<FaultCase> = {}): Readonly<Record<string, FaultCase>> =>
  Object.fromEntries(Object.entries(all).map(([name, fault]) => [name, { start: () => startFaultyNode(fault), ...overrides }]))

export const faultCases: Readonly<Record<string, FaultCase>> = {
  ...toFaultCases(faults),
  ...toFaultCases(missingHistoryFaults),
  'is on another chain': { start: () => startFaultyNode(respondFromOtherChain) },
  'swaps answers': { start: () => startFaultyNode(swapResponses()) },
  'redirects to another node': { start: startRedirectingNode, loggedCause: /^HTTP 307/ },
  ...connectionFaultCases,
  ...toFaultCases(toleratedBehaviors, { testBoth: false }),
  'speaks TLS': { start: () => startTlsNode('valid'), testBoth: false },
}

/** Of each kind one, for partners: they are asked in the same way as own nodes, but for logs. */
export const partnerFaultNames = [
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
