import { faults, toleratedBehaviors, respondFromOtherChain, missingHistoryFaults, swapResponses } from '../support/node-faults.ts'
import { exceptChainId } from '../support/node-responses.ts'
import type { NodeFault } from '../support/node-responses.ts'
import { unreachableUrl, startBlackHole, startFaultyNode, startPlaintextNode, startTlsNode } from '../support/faulty-node.ts'
import type { FaultyNode } from '../support/faulty-node.ts'
import { startFakeNode } from '../support/fake-node.ts'

/** What the matrix uses of a node. */
export type NodeUnderTest = Pick<FaultyNode, 'url' | 'requestCount' | 'stop'>

/** A kind of node that is faulty, or behaves unusually. */
export interface FaultCase {
  start(): Promise<NodeUnderTest>
  /** False for a node that responds correctly: two of them are no trial. */
  readonly testBoth?: false
  /** What the log must give as the cause. */
  readonly loggedCause?: RegExp
}

/** A URL without a node. */
const createAbsentNode = (url: string): NodeUnderTest => ({ url, requestCount: () => 0, stop: async () => undefined })

/** Fails the run when the gateway follows the redirect. */
const startRedirectingNode = async (): Promise<NodeUnderTest> => {
  const target = await startFakeNode({ eth_call: { result: '0xbad' } })
  const node = await startFaultyNode(socket => void socket.write(`HTTP/1.1 307 X\r\nlocation: ${target.url}\r\ncontent-length: 0\r\n\r\n`))
  return {
    url: node.url,
    requestCount(method) {
      if (target.received.length > 0) throw new Error('a redirect was followed')
      return node.requestCount(method)
    },
    stop: async () => void (await Promise.all([node.stop(), target.stop()])),
  }
}

/** Faults before the first request: of names, connections and TLS. */
const connectionFaultCases: Readonly<Record<string, FaultCase>> = {
  'refuses connections': { start: async () => createAbsentNode(await unreachableUrl()), loggedCause: /^connection refused/ },
  'has an unresolvable host name': {
    start: async () => createAbsentNode('http://node.invalid'),
    loggedCause: /^host name not resolved/,
  },
  'accepts connections and reads nothing': { start: () => startBlackHole() },
  'has a certificate for another host': {
    start: () => startTlsNode('other-host'),
    loggedCause: /^TLS error \(ERR_TLS_CERT_ALTNAME_INVALID\)/,
  },
  'has an expired certificate': { start: () => startTlsNode('expired'), loggedCause: /^TLS error \(CERT_HAS_EXPIRED\)/ },
  'has a self-signed certificate': { start: () => startTlsNode('self-signed'), loggedCause: /^TLS error \(DEPTH_ZERO_SELF_SIGNED_CERT\)/ },
  'responds in plaintext': { start: startPlaintextNode, loggedCause: /^TLS error/ },
  'stalls the TLS handshake': { start: () => startBlackHole('https'), loggedCause: /^(connection timed out|upstream unresponsive)/ },
}

const toFaultCases = (
  nodeFaults: Readonly<Record<string, NodeFault>>,
  overrides: Partial<FaultCase> = {},
): Readonly<Record<string, FaultCase>> =>
  Object.fromEntries(
    Object.entries(nodeFaults).map(([name, fault]) => [name, { start: () => startFaultyNode(exceptChainId(fault)), ...overrides }]),
  )

export const faultCases: Readonly<Record<string, FaultCase>> = {
  ...toFaultCases(faults),
  ...toFaultCases(missingHistoryFaults),
  'is on another chain': { start: () => startFaultyNode(respondFromOtherChain) },
  'swaps responses': { start: () => startFaultyNode(exceptChainId(swapResponses())) },
  'redirects to another node': { start: startRedirectingNode, loggedCause: /^HTTP 307/ },
  ...connectionFaultCases,
  ...toFaultCases(toleratedBehaviors, { testBoth: false }),
  'speaks TLS': { start: () => startTlsNode('valid'), testBoth: false },
}

/** One fault of each kind, for partners: they are requested like own nodes, but for logs. */
export const partnerFaultNames = [
  'never responds',
  'sends the response byte by byte',
  'resets the connection',
  'closes the connection mid body',
  'sends garbage',
  'responds with another id',
  'responds with two results',
  'responds with a truncated stream',
  'responds with an internal error',
  'sends truncated gzip',
  'responds with HTTP 429',
  'responds with a rate limit in JSON',
  'responds with HTTP 500',
  'responds with HTTP 401',
  'sends a second response',
  'swaps responses',
  'is on another chain',
  'redirects to another node',
  'refuses connections',
  'has an expired certificate',
  'compresses unrequested',
  'responds in small packets',
  'formats the response unusually',
  'speaks TLS',
] as const
