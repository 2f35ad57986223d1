import { loadConfig } from '../config/load.ts'
import { printProblems } from '../config/problem.ts'
import type { Config, GatewayConfig } from '../config/types.ts'
import type { CallToExplain, StageExplanation } from '../core/explain-stages.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { Secret } from '../plugin/secret.ts'
import { readBalance } from '../services/account-reports.ts'
import { openAccounts } from '../services/accounts/index.ts'
import { systemClock } from '../services/clock.ts'
import { openJwtVerifier } from '../services/jwt/index.ts'
import { openLog } from '../services/log.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import { allClasses } from '../services/node-reasons.ts'
import type { NetworkStatus } from '../server/network-status.ts'
import { openStore } from '../store/open-store.ts'
import type { BalanceStore } from '../store/store.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'
import { configOption, formatHint, jsonOption, readArguments } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption, Terminal } from './command.ts'
import { adminUrl, fetchNetworkStatuses } from './gateway-status.ts'

const options = {
  key: {
    type: 'string',
    placeholder: 'KEY',
    description: 'An API key or a token (JWT), to see whether it would pass, and whether it and its account have the credits.',
  },
  json: jsonOption,
  config: configOption,
} as const satisfies Readonly<Record<string, CommandOption>>

type ExplainCall = (config: Config, network: string, call: CallToExplain) => Promise<readonly StageExplanation[] | undefined>

/** `explainCall` creates every stage of the network and starts none. */
export const createExplainCommand = (plugins: readonly LoadablePlugin[], explainCall: ExplainCall): Command => ({
  name: 'explain',
  summary: commandSummaries.explain,
  usage: ['explain NETWORK METHOD [--key KEY] [--json] [--config DIR]'],
  positionals: { NETWORK: 'The name of a network.', METHOD: 'The name of a method, such as eth_getLogs.' },
  options,
  examples: {
    'explain base-mainnet eth_getLogs': 'what each plugin does with the call',
    'explain base-mainnet eth_call --key $API_KEY': 'the same for one caller: would it pass?',
  },
  async run(args, terminal) {
    const {
      values,
      positionals: [network, method],
    } = readArguments(args, ['NETWORK', 'METHOD'], options)
    const config = await loadConfig(values.config, plugins, terminal.env)
    printProblems(config.problems, terminal)
    if (config.problems.length > 0 || config.gateway === undefined) return exitCodes.config
    requireServedNetwork(config, network)
    const caller = values.key === undefined ? noCaller : await readCaller(config.gateway, values.key)
    const stages = (await explainCall(config, network, { method, ...caller })) ?? []
    const status = (await fetchNetworkStatuses(config.gateway))?.find(({ name }) => name === network)
    const explanation = { network, method, stages, ...(status && { upstreams: status.upstreams }) }
    if (values.json) terminal.out(JSON.stringify(explanation))
    else printExplanation(explanation, config.gateway, terminal)
    return stages.at(-1)?.ends === 'refused' ? exitCodes.failed : exitCodes.ok
  },
})

const requireServedNetwork = ({ networks, unserved }: Config, network: string): void => {
  const missing = unserved.find(each => each.network === network)
  if (missing !== undefined) throw new UsageError(`the network ${network} is not served: set ${missing.variables.join(' or ')}`)
  if (networks.some(({ name }) => name === network)) return
  const names = [...networks.map(({ name }) => name), ...unserved.map(each => each.network)]
  throw new UsageError(`unknown network "${network}"${formatHint(didYouMean(network, names))}`)
}

type Caller = Pick<CallToExplain, 'lookup' | 'creditsLeft' | 'keyCreditsLeft'>

const noCaller: Caller = { lookup: undefined, creditsLeft: undefined }

/** The key as the gateway would look it up, and what its account and the key itself have left. */
const readCaller = async ({ store: address, plans, jwt: jwtOptions }: GatewayConfig, keyOrToken: string): Promise<Caller> => {
  const store = await openStore(address, systemClock)
  const verifier =
    jwtOptions && (await openJwtVerifier(jwtOptions, { clock: systemClock, log: openLog('silent'), metrics: createMetricsRegistry() }))
  try {
    const lookup = await openAccounts(store, plans, systemClock, { jwt: { verifier } }).find(new Secret(keyOrToken))
    if (lookup.kind !== 'granted') return { lookup, creditsLeft: undefined }
    const { account, key } = lookup
    return {
      lookup,
      creditsLeft: await readCreditsLeft(store, account.id, account.plan.dailyCredits),
      keyCreditsLeft: key.dailyCredits === undefined ? undefined : await readCreditsLeft(store, key.id, key.dailyCredits),
    }
  } finally {
    verifier?.close()
    await store.close()
  }
}

/** Credits that a gateway has leased are left, too. */
const readCreditsLeft = async (store: Pick<BalanceStore, 'dayBalance'>, id: string, limit: number): Promise<number> => {
  const { left, held } = await readBalance(store, id, limit)
  return (left ?? 0) + held
}

interface CallExplanation {
  readonly network: string
  readonly method: string
  readonly stages: readonly StageExplanation[]
  /** Of the running gateway. */
  readonly upstreams?: NetworkStatus['upstreams']
}

const printExplanation = ({ stages, upstreams }: CallExplanation, gateway: GatewayConfig, { out, styleOut = plain }: Terminal): void => {
  for (const { plugin, text, ends } of stages) {
    const end =
      ends === 'refused' ? styleOut('error', ': refuses the call') : ends === 'answered' ? styleOut('ok', ': answers the call') : ''
    out(styleOut('title', plugin) + end)
    for (const line of text) out(`  ${line}`)
  }
  if (stages.at(-1)?.ends !== undefined) return
  out(styleOut('title', 'upstreams now'))
  if (upstreams !== undefined) return upstreams.map(upstream => describeUpstream(upstream, styleOut)).forEach(line => out(`  ${line}`))
  const url = adminUrl(gateway)
  const reason = url === undefined ? 'gateway.yaml has no listen.admin with a port to ask' : `no gateway answers at ${url}`
  out(`  not known: ${reason}`)
}

const describeUpstream = ({ name, usable, because, head, reasons = [] }: NetworkStatus['upstreams'][number], style: Style): string => {
  const state = [
    usable ? style('ok', 'usable') : style('error', `not usable${because === undefined ? '' : `: ${because}`}`),
    ...(head === undefined ? [] : [`head ${head}`]),
    ...reasons.map(({ class: methodClass, text }) => (methodClass === allClasses ? text : `${methodClass}: ${text}`)),
  ]
  return `${name}: ${state.join('; ')}`
}
