import { refusals } from '../../src/plugin/error-table.ts'
import type { AccountReport } from '../../src/portal/routes/account.ts'
import { generateAccountId } from '../../src/services/accounts/api-key.ts'
import { RecordedAccounts } from '../../src/services/accounts/recorded-accounts.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { LoggedRequest } from '../../src/store/request-log-store.ts'
import type { AccountRow, KeyChange, Store } from '../../src/store/store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import { dayMs, hourMs } from '../../src/util/dates.ts'
import { latencyBucketOf } from '../../src/util/latency-buckets.ts'
import { networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { FakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import { createPortalDeployment, signInToPortal } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { startWebhookReceiver } from '../support/webhook-receiver.ts'

// What the screenshots show: a gateway with networks, accounts, a week of usage, and calls of now.

export const adminToken = 'screenshots-operator'
/** Whose dashboard is shown. */
export const account = 'example'
/** Without keys and calls. */
export const newcomer = 'newcomer'
/** With credits for ten calls. */
export const spender = { name: 'spender', credits: 800 }

interface Chain {
  readonly chainId: number
  readonly blockTimeMs: number
  /** When the deployment starts. */
  readonly firstBlock: number
}

const chains = {
  'ethereum-mainnet': { chainId: 1, blockTimeMs: 12_000, firstBlock: 21_600_831 },
  'base-mainnet': { chainId: 8_453, blockTimeMs: 2_000, firstBlock: 24_815_402 },
  'arbitrum-mainnet': { chainId: 42_161, blockTimeMs: 1_000, firstBlock: 293_406_118 },
  'linea-mainnet': { chainId: 59_144, blockTimeMs: 2_000, firstBlock: 14_270_977 },
} as const satisfies Readonly<Record<string, Chain>>

export type NetworkName = keyof typeof chains

const networkNames = Object.keys(chains) as readonly NetworkName[]

const weekHours = 168

/** More in the day than in the night, and never twice the same, so that the chart has a shape. */
const callsOfHour = (hour: number, weight: number): number => {
  const wave = Math.sin((((hour % 24) - 8) / 12) * Math.PI)
  return Math.max(0, Math.round(weight * (19 + 13 * wave + 4 * Math.sin(hour * 1.7) + 3 * Math.sin(hour * weight))))
}

const methods = [
  { method: 'eth_call', cost: 80, weight: 9, latencyMs: 21 },
  { method: 'eth_getLogs', cost: 255, weight: 5, latencyMs: 64 },
  { method: 'eth_getBalance', cost: 80, weight: 3, latencyMs: 14 },
  { method: 'eth_blockNumber', cost: 80, weight: 2, latencyMs: 0.6 },
  { method: 'eth_getTransactionReceipt', cost: 80, weight: 1.4, latencyMs: 17 },
] as const

/** Most calls take about as long, and some longer. */
const latenciesAround = (latencyMs: number, calls: number): readonly number[] => {
  const buckets: number[] = []
  for (const [factor, share] of [
    [0.8, 0.3],
    [1, 0.4],
    [1.4, 0.2],
    [2.5, 0.07],
    [5, 0.03],
  ] as const) {
    const bucket = latencyBucketOf(latencyMs * factor)
    buckets[bucket] = (buckets[bucket] ?? 0) + Math.round(calls * share)
  }
  return Array.from(buckets, count => count ?? 0)
}

interface SeededKey {
  readonly id: string
  readonly share: number
  /** Credits of a day. */
  readonly limit?: number
}

const countsOf = (id: string, keys: readonly SeededKey[], hour: number): readonly UsageCount[] =>
  keys.flatMap(({ id: key, share }) =>
    methods.flatMap(({ method, cost, weight, latencyMs }, i) => {
      const calls = callsOfHour(hour, weight * share)
      const failed = method === 'eth_getLogs' ? Math.round(calls * (hour % 7 === 0 ? 0.15 : 0.03)) : 0
      const group = {
        account: id,
        key,
        network: networkNames[i % networkNames.length] ?? '',
        method,
        forwarded: false,
        hour,
        fiveMinutes: hour * 12,
      }
      const ok = calls - failed
      return [
        { ...group, outcome: 'ok', calls: ok, credits: ok * cost, latencies: latenciesAround(latencyMs, ok) },
        ...(failed === 0 ? [] : [{ ...group, outcome: 'params', calls: failed, credits: 0 }]),
      ]
    }),
  )

/** Credits that were used today, as a process reports them. */
const seedBalance = async (store: Store, id: string, limit: number, used: number): Promise<void> => {
  const lease = { account: id, process: 'screenshots', day: Math.floor(systemClock.now() / dayMs), minCredits: 0, limit, shareDivisor: 1 }
  await store.requestLease({ ...lease, seq: 1, counters: undefined, desiredCredits: used })
  await store.requestLease({ ...lease, seq: 2, counters: { granted: used, returned: 0, used }, desiredCredits: 0 })
}

const coreCredits = 3_000_000
/** Of the first key. */
const indexerLimit = 500_000
/** Accounts that the operator sees beside the one of the dashboard. */
const otherAccounts = [
  { name: 'wallet-app', label: 'customer 1042', weight: 6, limit: 9_000_000, usedShare: 0.91 },
  { name: 'indexer', label: 'customer 1077', weight: 4, limit: 6_000_000, usedShare: 0.83 },
  { name: 'trading-desk', label: 'customer 1101', weight: 2.5, limit: 20_000_000, usedShare: 0.14 },
] as const

interface SeededAccount {
  readonly id: string
  readonly keys: readonly SeededKey[]
  readonly limit: number
  /** Of the credits of a day; of what the usage of today costs, unless given. */
  readonly usedShare?: number
}

/** Each failed call of the last day, as the log of requests has it. */
const failuresOf = (counts: readonly UsageCount[], firstHour: number): readonly LoggedRequest[] =>
  counts
    .filter(({ outcome, hour }) => outcome !== 'ok' && hour >= firstHour)
    .flatMap(({ key, network, method, outcome, hour, calls }) =>
      Array.from({ length: calls }, (_, i) => ({
        ...{ time: (hour + (i + 1) / (calls + 1)) * hourMs, requestId: `seeded-${key}-${hour}-${i}`, transport: 'http' },
        ...{ key, network, method, params: '[{"fromBlock":"0x1499a3f","toBlock":"0x1"}]', outcome, code: refusals.params.code },
        ...{ message: 'params[0] has "fromBlock" 0x1499a3f above "toBlock" 0x1', credits: 0, durationMs: 0.2 },
      })),
    )

const seedUsage = async (store: Store, accounts: readonly SeededAccount[]): Promise<void> => {
  const now = Math.floor(systemClock.now() / hourMs)
  const hours = Array.from({ length: weekHours }, (_, i) => now - weekHours + i)
  const counts = accounts.flatMap(({ id, keys }) => hours.flatMap(hour => countsOf(id, keys, hour)))
  await store.reportUsage({ process: 'screenshots', seq: 1, counts, retentionHours: 2_160 })
  const requests = accounts.map(({ id }) => ({
    account: id,
    requests: failuresOf(
      counts.filter(({ account }) => account === id),
      now - 23,
    ),
  }))
  await store.addRequests({ id: 'seeded', accounts: requests }, { retentionMs: dayMs, maxBytes: 2 ** 26 })
  const usedToday = (isOf: (count: UsageCount) => boolean): number =>
    counts
      .filter(count => isOf(count) && Math.floor(count.hour / 24) === Math.floor(now / 24))
      .reduce((sum, { credits }) => sum + credits, 0)
  for (const { id, keys, limit, usedShare } of accounts) {
    await seedBalance(
      store,
      id,
      limit,
      usedShare === undefined ? usedToday(({ account }) => account === id) : Math.round(limit * usedShare),
    )
    for (const { id: key, limit } of keys)
      if (limit !== undefined)
        await seedBalance(
          store,
          key,
          limit,
          usedToday(count => count.key === key),
        )
  }
}

/** Accounts and keys are older than what they have used. */
const createdAt = systemClock.now() - 40 * dayMs

/** The accounts, and the key of each that calls. */
const addAccounts = async ({ dir }: Deployment): Promise<{ readonly key: string; readonly spenderKey: string }> => {
  const store = await openStore({ kind: 'lmdb', path: `${dir}/../data` }, systemClock)
  let now = createdAt
  const recorded = new RecordedAccounts(store, { ...systemClock, now: () => now }, { kind: 'operator', name: 'alex' })
  const addAccount = async (name: string, plan: string, settings: Partial<AccountRow> = {}): Promise<string> => {
    const id = generateAccountId()
    now += dayMs
    await recorded.addAccount({ id, name, plan, created: now, ...settings })
    return id
  }
  const addKey = async (id: string, settings: KeyChange = {}) => {
    now += dayMs
    const { row, key } = await recorded.createKey(id, settings)
    return { id: row.id, key: key.reveal() }
  }
  const exampleId = await addAccount(account, 'core')
  await addAccount(newcomer, 'core')
  const spenderId = await addAccount(spender.name, 'core', { credits: spender.credits })
  const added = [
    await addKey(exampleId, { name: 'indexer', dailyCredits: indexerLimit, ips: ['203.0.113.0/24', '127.0.0.1'] }),
    await addKey(exampleId, { name: 'staging', networks: ['ethereum-mainnet', 'base-mainnet'] }),
    await addKey(exampleId, {
      ...{ name: 'production dApp', methods: methods.map(({ method }) => method) },
      ...{ origins: ['https://dapp.example'], rate: 50 },
    }),
  ]
  const others = []
  for (const { name, label, ...usage } of otherAccounts) {
    const id = await addAccount(name, 'growth', { credits: usage.limit, label })
    others.push({ id, ...usage, key: (await addKey(id)).id })
  }
  const { key: spenderKey } = await addKey(spenderId)
  const shares = [0.3, 0.1, 1]
  await seedUsage(store, [
    {
      id: exampleId,
      keys: added.map(({ id }, i) => ({ id, share: shares[i] ?? 1, ...(i === 0 && { limit: indexerLimit }) })),
      limit: coreCredits,
    },
    ...others.map(({ id, key, weight, limit, usedShare }) => ({ id, keys: [{ id: key, share: weight }], limit, usedShare })),
  ])
  await store.close()
  return { key: added[0]?.key ?? '', spenderKey }
}

const hex = (value: number, digits = 0): string => `0x${value.toString(16).padStart(digits, '0')}`

/** Of the finalized block, before the newest one. */
const finalityBlocks = 64
const startedAt = systemClock.now()

/** A chain that stands still is a problem that pages show. */
const newestBlock = ({ firstBlock, blockTimeMs }: Chain): number => firstBlock + Math.floor((systemClock.now() - startedAt) / blockTimeMs)

const describeBlock = ({ firstBlock, blockTimeMs }: Chain, number: number) => ({
  ...{ number: hex(number), hash: hex(number, 64), parentHash: hex(number - 1, 64) },
  timestamp: hex(Math.floor((startedAt + (number - firstBlock) * blockTimeMs) / 1_000)),
})

const startNode = (chain: Chain, client: string): Promise<FakeNode> =>
  startFakeNode({
    eth_chainId: { result: hex(chain.chainId) },
    web3_clientVersion: { result: client },
    eth_blockNumber: () => ({ result: hex(newestBlock(chain)) }),
    eth_getBlockByNumber: ({ params: [tag] }) => ({
      result: describeBlock(
        chain,
        tag === 'finalized' ? newestBlock(chain) - finalityBlocks : String(tag).startsWith('0x') ? Number(tag) : newestBlock(chain),
      ),
    }),
    eth_getBalance: { result: '0x2386f26fc10000' },
    eth_gasPrice: { result: '0x3b9aca00' },
  })

/** The first network has no host of its own: calls without one are its. */
const networksOf = (nodes: ReadonlyMap<NetworkName, readonly FakeNode[]>) =>
  Object.fromEntries(
    [...nodes].map(([name, its], i) => {
      const urls = its.map(({ url }) => url)
      const file = networkFile(name, urls)
      const { chainId, blockTimeMs } = chains[name]
      return [name, { ...file, chainId, blockTime: `${blockTimeMs / 1_000}s`, hosts: i === 0 ? ['127.0.0.1'] : [`${name}.localhost`] }]
    }),
  )

const callIntervalMs = 120
/** Of so many calls, one goes to each of two other networks; nobody calls the last one. */
const callsPerOther = 5

/** Of so many calls, one fails in one of these ways. */
const callsPerFailure = 24

/** Calls until it is stopped: most succeed, and some fail. */
const startCalls = (gateway: GatewayProcess, key: string) => {
  const url = gateway.http(key)
  const failing = [
    () => call(url, 'eth_getLogs', [{ fromBlock: '0x1499a3f', toBlock: '0x1' }]),
    () => call(url, 'eth_getBalance', ['0x1234', 'latest']),
    () => call(url, 'eth_getBlance', []),
  ]
  let sent = 0
  const send = async (): Promise<void> => {
    sent += 1
    const fail = sent % callsPerFailure === 0 ? failing[(sent / callsPerFailure) % failing.length] : undefined
    const other = { 1: 'base-mainnet', 2: 'arbitrum-mainnet' }[sent % callsPerOther]
    const options = other === undefined ? {} : { host: `${other}.localhost` }
    await (fail?.() ?? call(url, 'eth_getBalance', [`0x${String(sent % 90).padStart(40, '0')}`, 'latest'], options))
  }
  const timer = setInterval(() => void send().catch(() => undefined), callIntervalMs)
  return () => clearInterval(timer)
}

/** Of the nodes of each network. */
const clients = ['Geth/v1.16.7-stable/linux-amd64/go1.25.1', 'reth/v1.8.2-9c30bf7/x86_64-unknown-linux-gnu']

/** A gateway that is called while it runs. */
export const openScreenshotDeployment = async () => {
  const nodes = new Map<NetworkName, readonly FakeNode[]>()
  for (const name of networkNames) nodes.set(name, await Promise.all(clients.map(client => startNode(chains[name], client))))
  const [provider, mail, pager] = [await startOidcProvider(), await startMailServer(), await startWebhookReceiver()]
  const deployment = createPortalDeployment('', {
    networks: networksOf(nodes),
    gateway: {
      admin: { token: adminToken },
      portal: {
        ...{ url: 'http://127.0.0.1', publicStatus: true, signUp: { plan: 'core' }, brand: { support: 'https://example.org/help' } },
        ...{ oidc: { ...provider.config, name: 'Example' }, smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' } },
        operatorAlerts: { webhooks: { pager: { url: '${PAGER_WEBHOOK_URL}' } } },
      },
      plans: {
        core: { dailyCredits: coreCredits, price: 'free' },
        growth: { dailyCredits: 200_000_000, forwarding: true, offered: true, price: '$225 a month' },
        custom: { dailyCredits: 1_000_000_000, forwarding: true, offered: true, price: 'as agreed' },
      },
    },
    env: { ...provider.env, SMTP_URL: mail.url, PAGER_WEBHOOK_URL: pager.url },
  })
  const { key, spenderKey } = await addAccounts(deployment)
  const gateway = await deployment.start()
  const stopCalls = startCalls(gateway, key)
  const owner = await signInToPortal(deployment, gateway, account)
  await owner.post('/people', { name: 'Dana', role: 'developer' })
  await owner.post('/people', { name: 'Ivo', role: 'viewer', email: 'ivo@example.org' })
  await owner.post('/tokens', { name: 'deploy script' })
  const ownerOfSpender = await signInToPortal(deployment, gateway, spender.name)
  let spentCalls = 0
  return {
    ...{ deployment, gateway, key, nodes, mail, portal: gateway.portal ?? '' },
    /** Uses up credits of the account that has few. Resolves once pages show these calls. */
    async spend(calls: number): Promise<void> {
      for (let i = 0; i < calls; i += 1) await call(gateway.http(spenderKey), 'eth_gasPrice')
      spentCalls += calls
      await waitUntil(async () => {
        const { hours }: AccountReport = (await ownerOfSpender.get('/account')).json
        return hours.reduce((sum, { calls }) => sum + calls, 0) === spentCalls
      })
    },
    async stop(): Promise<void> {
      stopCalls()
      await deployment.remove()
      await Promise.all([...[...nodes.values()].flat(), provider, mail, pager].map(each => each.stop()))
    },
  }
}

export type ScreenshotDeployment = Awaited<ReturnType<typeof openScreenshotDeployment>>
