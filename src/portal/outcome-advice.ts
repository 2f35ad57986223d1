import { refusals } from '../plugin/error-table.ts'
import type { ErrorCategory, RefusalKind } from '../plugin/error-table.ts'

/** Why a call failed: what a developer can do about calls with this outcome, or about a node's error of this category. */
export const adviceOf = (outcome: string, category?: string): string =>
  (outcome === nodeOutcome ? ownValue(adviceByCategory, category) : undefined) ?? ownValue(adviceByOutcome, outcome) ?? unknownAdvice

/** The same for operators: what callers can do is said of the caller. */
export const operatorAdviceOf = (outcome: string, category?: string): string =>
  (outcome === nodeOutcome ? ownValue(operatorAdviceByCategory, category) : undefined) ??
  ownValue(operatorAdviceByOutcome, outcome) ??
  adviceOf(outcome, category)

/** What the gateway itself says with this outcome; undefined for the errors of nodes. */
export const refusalOf = (outcome: string): (typeof refusals)[RefusalKind] | undefined => ownValue(refusals, outcome)

/** The code and the message that calls with this outcome have been answered with. */
export const describeOutcome = (outcome: string) => {
  const refusal = refusalOf(outcome)
  return { outcome, code: refusal?.code ?? null, message: refusal?.message ?? 'an error of the node' }
}

const nodeOutcome = 'node'

/** An outcome is stored: a later Tollgate may have had others. */
const ownValue = <T>(table: Readonly<Record<string, T>>, name = ''): T | undefined => (Object.hasOwn(table, name) ? table[name] : undefined)

const unknownAdvice = 'The message of the error says more.'

const adviceByOutcome: Readonly<Partial<Record<RefusalKind | typeof nodeOutcome, string>>> = {
  node: 'The node refused the call, for example because a transaction reverts. The message is the node’s own.',
  method: 'Check the spelling: the network has no method of this name. The page Plan lists the methods of each network.',
  params: 'Correct the parameter that the message names, and send the call again. This error is free.',
  tooMany: 'Narrow the range with fromBlock and toBlock, or query fewer contracts. The error suggests a range that fits.',
  timeout: 'Narrow the range with fromBlock and toBlock; for common topics, query a single contract.',
  notMined: 'A node has the transaction. Poll its receipt, and do not send it again.',
  tooLarge: 'The answer is too large. Ask for less in one call.',
  key: 'The key is missing, mistyped, unknown or revoked. The page Keys shows the active keys.',
  forbidden: 'The key does not allow this network, method, web page or address. Change its lists on the page Keys.',
  spent: 'The credits of the day, or the daily limit of the key, are used up; both reset at midnight UTC. A larger plan has more.',
  rate: 'Send fewer calls a second, and wait as long as the header Retry-After says.',
  failing:
    'Too many recent calls failed by errors of the caller, which are free. Fix those calls, and wait as long as the header Retry-After says.',
  unknownSubscription: 'The subscription or the filter has ended, or belongs to another connection or account. Make a new one.',
  tooManySubscriptions: 'End subscriptions or filters that are no longer needed.',
  unavailable: 'No node could answer. Send the call again after the time in the header Retry-After.',
  internal: 'A fault of the gateway. Send the request id from the error to the operator.',
}

const operatorAdviceByOutcome: Readonly<Partial<Record<RefusalKind, string>>> = {
  params: 'The caller has to correct the parameter that the message names. This error is free.',
  tooMany: 'The caller has to narrow the range, or query fewer contracts. The error suggests a range that fits.',
  timeout: 'The nodes did not finish in time. The caller can narrow the range; for common topics, query a single contract.',
  notMined: 'A node has the transaction: the caller has to poll its receipt, and not send it again.',
  tooLarge: 'The caller has to ask for less in one call, or `maxBytes` of the network has to be larger.',
  spent:
    'The credits of the day, or the daily limit of the key, are used up; both reset at midnight UTC. A larger plan, or credits of its own, give the account more.',
  rate: 'The caller has to send fewer calls a second, or the rate of its plan or key has to be higher.',
  failing: 'Too many recent calls of the account failed by errors of the caller, which are free. The caller has to fix those calls.',
  unknownSubscription:
    'The subscription or the filter has ended, or belongs to another connection or account. The caller has to make a new one.',
  tooManySubscriptions: 'The caller has to end subscriptions or filters that are no longer needed.',
  unavailable: 'No node could answer. Nodes says what keeps calls from them.',
  method:
    'The network does not offer this method. The file of the network, or the method table that the file names, lists what is offered.',
  key: 'The key is missing, mistyped, unknown or revoked.',
  forbidden: 'The lists of the key do not allow this network, method, web page or address.',
  internal: 'A fault of the gateway. The log has the error with the request id.',
}

const operatorAdviceByCategory: Readonly<Partial<Record<ErrorCategory, string>>> = {
  reverted: 'The contract reverted: the caller has to check the arguments, the sender and the block.',
  alreadyKnown: 'The node has this transaction already: the caller has to wait for its receipt.',
  stateUnavailable:
    'The nodes have no state of a block that old. The caller has to ask for a newer block, or the network needs an archive node.',
  invalidParams: 'The caller has to correct the parameter that the message of the node names.',
}

const adviceByCategory: Readonly<Partial<Record<ErrorCategory, string>>> = {
  reverted:
    'The contract reverted. Decode the data of the error with the ABI of the contract; check the arguments, the sender and the block.',
  alreadyKnown: 'The node has this transaction already: wait for its receipt.',
  blockNotFound: 'No node has this block: it is not mined yet, or was removed from the chain.',
  stateUnavailable: 'The nodes have no state of a block that old. Ask for a newer block.',
  invalidParams: 'Correct the parameter that the message of the node names.',
}
