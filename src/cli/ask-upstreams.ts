import { headTimingFor } from '../services/chain-heads/poll-schedule.ts'
import type { Config, NetworkConfig, Step } from '../config/types.ts'
import type { Problem } from '../config/problem.ts'
import { Cancellation } from '../plugin/call.ts'
import type { Target } from '../plugin/call.ts'
import type { Path } from '../util/json.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Reply } from '../plugin/reply.ts'
import { Secret } from '../plugin/secret.ts'
import { lacksChainId } from '../services/chain-heads/chain-id-check.ts'
import { openUpstreamRequester, parseQuantityReply, parseResult } from '../services/chain-heads/upstream-requests.ts'
import type { UpstreamRequester } from '../services/chain-heads/upstream-requests.ts'
import { systemClock } from '../services/clock.ts'
import { MemoryBudget } from '../services/memory-budget.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import { isJsonObject } from '../util/json.ts'

/** What an upstream of the configuration has answered. */
export interface UpstreamReport {
  readonly network: string
  readonly name: string
  readonly chainId?: number
  readonly head?: number
  /** Blocks behind the highest head of the network. */
  readonly lag?: number
  readonly latencyMs?: number
  /** Does it have the state of the first block? Undefined when it does not say. */
  readonly archive?: boolean
  /** Does its WebSocket announce new blocks? Undefined without one. */
  readonly newHeads?: boolean
}

/** The answers of all upstreams, and what they show to be wrong. */
export interface UpstreamReports {
  readonly reports: readonly UpstreamReport[]
  /** A wrong chain, also of a WebSocket, or a network without any upstream that answers: placed at the URL. */
  readonly problems: readonly Problem[]
  /** An upstream that does not answer, that lags, or whose WebSocket announces no blocks. */
  readonly warnings: readonly Problem[]
}

/** An upstream, by the part of a step's options that has a `name` and a `url`; so those of external plugins are found too. */
interface ListedUpstream {
  readonly network: NetworkConfig
  readonly target: Target
  readonly isPartner: boolean
  /** Where blocks come by eth_subscribe: `ws`, or a `url` that is a WebSocket. */
  readonly subscription?: { readonly target: Target; problemAt(message: string): Problem }
  problemAtUrl(message: string): Problem
}

export const listUpstreams = ({ networks }: Pick<Config, 'networks'>): readonly ListedUpstream[] =>
  networks.flatMap(network => network.steps.flatMap(step => upstreamsIn(step.options, [], { network, step })))

const upstreamsIn = (
  value: unknown,
  path: Path,
  context: { readonly network: NetworkConfig; readonly step: Step },
): readonly ListedUpstream[] => {
  if (Array.isArray(value)) return value.flatMap((item, i) => upstreamsIn(item, [...path, i], context))
  if (!isJsonObject(value) || value instanceof Secret) return []
  const { network, step } = context
  if (typeof value['name'] !== 'string' || !isNodeUrl(value['url'])) {
    return Object.entries(value).flatMap(([key, item]) => upstreamsIn(item, [...path, key], context))
  }
  // A part of the options with a name and a URL; its other members are those of a Target in every plugin that has them.
  const target = { ...value, source: 'node' } as unknown as Target
  const problemAt = (key: string) => (message: string) => step.problemAt([...path, key], `${step.name}: ${message}`)
  const wsKey = isWebSocket(target.ws) ? 'ws' : isWebSocket(target.url) ? 'url' : undefined
  const url = wsKey && target[wsKey]
  return [
    {
      network,
      target,
      isPartner: path.at(-1) === 'partner',
      problemAtUrl: problemAt('url'),
      ...(url && { subscription: { target: { ...target, url }, problemAt: problemAt(wsKey) } }),
    },
  ]
}

const isWebSocket = (url: unknown): boolean => url instanceof Secret && /^wss?:/i.test(url.reveal())

const isNodeUrl = (value: unknown): boolean => value instanceof Secret && /^(http|ws)s?:/i.test(value.reveal())

/** Far more than these answers need. */
const maxResponseBytes = 16 << 20

/** Asks all upstreams at the same time; `onAnswer` is called after each. Each has 2 s for each of four requests, and as much for its WebSocket. */
export const askUpstreams = async (upstreams: readonly ListedUpstream[], onAnswer: () => void): Promise<UpstreamReports> => {
  const client = openUpstreamClient(systemClock, new MemoryBudget(maxResponseBytes))
  const signal = new Cancellation()
  try {
    const answers = await Promise.all(
      upstreams.map(async upstream => {
        const { target, subscription } = upstream
        const [answer, subscribed] = await Promise.all([
          askUpstream(openUpstreamRequester(client, target, signal)),
          subscription && askSubscription(openUpstreamRequester(client, subscription.target, signal)),
        ])
        onAnswer()
        return { upstream, ...answer, ...(subscribed && { subscription: subscribed }) }
      }),
    )
    return judgeAnswers(answers)
  } finally {
    await client.close()
  }
}

type Answer = Pick<UpstreamReport, 'chainId' | 'head' | 'latencyMs' | 'archive'> & {
  /** The name and version of a development node; undefined for any other. */
  readonly devClient?: string
  /** Why there is no chain id or no head. */
  readonly failure?: string
}

const askUpstream = async (request: UpstreamRequester): Promise<Answer> => {
  const chainReply = await request('eth_chainId')
  const chainId = parseQuantityReply(chainReply)
  if (chainId === undefined && !lacksChainId(chainReply)) return { failure: describeFailure('eth_chainId', chainReply) }
  const chain = chainId === undefined ? {} : { chainId }
  // The connection is open now: this is what a call takes.
  const startMs = systemClock.monotonic()
  const headReply = await request('eth_blockNumber')
  const latencyMs = Math.round(systemClock.monotonic() - startMs)
  const head = parseQuantityReply(headReply)
  if (head === undefined) return { ...chain, failure: describeFailure('eth_blockNumber', headReply) }
  const archive = hasState(await request('eth_getBalance', zeroAddress, '0x1'))
  const devClient = devClientOf(await request('web3_clientVersion'))
  return { ...chain, head, latencyMs, ...(archive !== undefined && { archive }), ...(devClient !== undefined && { devClient }) }
}

interface SubscriptionAnswer {
  readonly chainId?: number
  readonly failure?: string
}

/** What NodeSubscription asks over its WebSocket. */
const askSubscription = async (request: UpstreamRequester): Promise<SubscriptionAnswer> => {
  const chainReply = await request('eth_chainId')
  const chainId = parseQuantityReply(chainReply)
  if (chainId === undefined) return { failure: describeFailure('eth_chainId', chainReply) }
  const reply = await request('eth_subscribe', 'newHeads')
  return { chainId, ...(isFailure(reply) && { failure: describeFailure('eth_subscribe', reply) }) }
}

const zeroAddress = `0x${'0'.repeat(40)}`

/** A node that has pruned the state answers with an error of its own; any other failure says nothing. */
const hasState = (reply: Reply): boolean | undefined => (!isFailure(reply) ? true : reply.kind === 'node' ? false : undefined)

/** A node that forks another chain has the chain id of that chain. */
const devClientOf = (reply: Reply): string | undefined => {
  const version = parseResult(reply)
  return typeof version === 'string' && /^(anvil|HardhatNetwork|Ganache|EthereumJS TestRPC)\b/i.test(version)
    ? version.slice(0, 80)
    : undefined
}

const describeFailure = (method: string, reply: Reply): string =>
  isFailure(reply) ? (reply.cause ?? reply.error.message) : `the result of ${method} is not a hex quantity`

interface ListedAnswer extends Answer {
  readonly upstream: ListedUpstream
  readonly subscription?: SubscriptionAnswer
}

/** What an answer shows. */
interface Judgment<Report> {
  readonly report: Report
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

const judgeAnswers = (answers: readonly ListedAnswer[]): UpstreamReports => {
  const judged = answers.map(answer => {
    const ofNetwork = answers.filter(({ upstream }) => upstream.network === answer.upstream.network)
    return judgeAnswer(answer, ofNetwork)
  })
  return {
    reports: judged.map(({ report }) => report),
    problems: judged.flatMap(({ problems }) => problems),
    warnings: judged.flatMap(({ warnings }) => warnings),
  }
}

const judgeAnswer = (listed: ListedAnswer, ofNetwork: readonly ListedAnswer[]): Judgment<UpstreamReport> => {
  const { upstream, failure: _, devClient: __, subscription, ...answer } = listed
  const { network, target, problemAtUrl } = upstream
  const { name } = target
  const lag = lagOf(answer, network, ofNetwork)
  const problem = describeProblem(name, listed, network, ofNetwork)
  const warning = problem === undefined ? describeWarning(name, listed, network, lag) : undefined
  const ofSubscription = judgeSubscription(upstream, subscription)
  return {
    report: { network: network.name, name, ...answer, ...(lag !== undefined && { lag }), ...ofSubscription.report },
    problems: [...(problem === undefined ? [] : [problemAtUrl(problem)]), ...ofSubscription.problems],
    warnings: [...(warning === undefined ? [] : [problemAtUrl(warning)]), ...ofSubscription.warnings],
  }
}

/** Blocks behind the highest head of its network; undefined without a head, or on another chain. */
const lagOf = ({ chainId, head }: Answer, network: NetworkConfig, ofNetwork: readonly Answer[]): number | undefined => {
  if (head === undefined || chainId !== network.chainId) return undefined
  const heads = ofNetwork.filter(each => each.chainId === network.chainId).map(each => each.head ?? 0)
  return Math.max(...heads) - head
}

const describeProblem = (
  name: string,
  { chainId, failure }: Answer,
  network: NetworkConfig,
  ofNetwork: readonly Answer[],
): string | undefined => {
  if (chainId !== undefined && chainId !== network.chainId) return `${name} is on chain ${chainId}, not ${network.chainId}`
  const isNetworkDown = ofNetwork.every(each => each.failure !== undefined)
  return isNetworkDown ? `${name} does not answer, and no other upstream of the network does: ${failure}` : undefined
}

const describeWarning = (
  name: string,
  { chainId, failure, devClient }: Answer,
  { blockTime, devNode }: NetworkConfig,
  lag = 0,
): string | undefined => {
  if (failure !== undefined) return `${name} does not answer: ${failure}`
  if (chainId === undefined) return `${name} has no chain ID: it gets calls, and its chain is not checked`
  if (devClient !== undefined && !devNode)
    return `${name} is a development node (${devClient}): add \`devNode: true\` to the network, or answers are cached, and the height goes back late`
  return lag > headTimingFor(blockTime).defaultMaxLagBlocks ? `${name} lags ${lag} blocks` : undefined
}

/** Without blocks from its WebSocket an upstream is polled: that is a warning. */
const judgeSubscription = (
  { network, target: { name, url }, subscription }: ListedUpstream,
  answer: SubscriptionAnswer | undefined,
): Judgment<Pick<UpstreamReport, 'newHeads'>> => {
  if (subscription === undefined || answer === undefined) return { report: {}, problems: [], warnings: [] }
  const { chainId, failure } = answer
  // What is wrong with the URL of the calls itself has been reported.
  const isOtherUrl = subscription.target.url !== url
  const isWrongChain = chainId !== undefined && chainId !== network.chainId
  const isSilent = failure !== undefined && (isOtherUrl || chainId !== undefined) && !isWrongChain
  return {
    report: { newHeads: failure === undefined && !isWrongChain },
    problems:
      isWrongChain && isOtherUrl ? [subscription.problemAt(`the WebSocket of ${name} is on chain ${chainId}, not ${network.chainId}`)] : [],
    warnings: isSilent ? [subscription.problemAt(`the WebSocket of ${name} announces no blocks, so it is polled: ${failure}`)] : [],
  }
}
