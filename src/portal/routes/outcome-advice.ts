import type { RefusalKind } from '../../plugin/reply.ts'

/** What a developer can do about calls with this outcome. */
export const outcomeAdvice = (outcome: string): string =>
  Object.hasOwn(adviceByOutcome, outcome) ? (adviceByOutcome[outcome as keyof typeof adviceByOutcome] ?? unknownAdvice) : unknownAdvice

const unknownAdvice = 'The message of the error says more.'

const adviceByOutcome: Readonly<Partial<Record<RefusalKind | 'node', string>>> = {
  node: 'The node refused the call, for example because a transaction reverts. The message of the error is the node’s.',
  method: 'The network does not offer this method. The page Plan lists the methods of each network.',
  params: 'The message of the error names the parameter and the rule that it breaks. Rejected calls are free.',
  tooMany: 'Narrow the range with fromBlock and toBlock, or query fewer contracts. The error suggests a range that fits.',
  timeout: 'Narrow the range with fromBlock and toBlock; for common topics, query a single contract.',
  tooLarge: 'The answer is larger than a node may send here. Ask for less at once.',
  key: 'The key is missing, mistyped, unknown or revoked. The page Keys shows the active keys.',
  forbidden: 'The key does not allow this network, method or web page. Change its lists on the page Keys.',
  spent: 'The credits of the day, or the daily limit of the key, are used up; both reset at midnight UTC. A larger plan has more.',
  rate: 'Send fewer calls a second, and wait as long as the header Retry-After says.',
  unavailable: 'No node could answer. Send the call again after the time in the header Retry-After.',
  internal: 'A fault of the gateway. Send the request id from the error to the operator.',
}
