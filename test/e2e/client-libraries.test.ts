import t from '../support/tap.ts'
import type { Test } from 'tap'
import { encodeAbiParameters, keccak256 } from 'viem'
import { deployEmitter, startAnvilChain } from '../support/anvil-chain.ts'
import { openEthers, openViem, openWeb3 } from '../support/dapp-clients.ts'
import type { DappClient, ClientLog } from '../support/dapp-clients.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const chain = await startAnvilChain()
t.teardown(() => chain.stop())
const { deployment, gateway, key } = await startGateway(t, {
  gateway: { plans: { core: { dailyCredits: 3_000_000 }, tiny: { dailyCredits: 1 } } },
  networks: { devnet: networkFile('devnet', [chain.url]) },
})
const { key: poorKey } = await deployment.addCaller('bob', 'tiny')
const madeUpKey = `tg_${'0'.repeat(38)}`

type Open = (key: string, options?: { readonly staticNetwork: boolean }) => DappClient

const http: Readonly<Record<string, Open>> = {
  'viem over HTTP': key => openViem(gateway.http(key)),
  'viem over HTTP in batches': key => openViem(gateway.http(key), { batch: true }),
  'ethers over HTTP': (key, options) => openEthers(gateway.http(key), options),
  'web3 over HTTP': key => openWeb3(gateway.http(key)),
}

const webSocket: Readonly<Record<string, Open>> = {
  'viem over WebSocket': key => openViem(gateway.ws(key)),
  'ethers over WebSocket': (key, options) => openEthers(gateway.ws(key), options),
  'web3 over WebSocket': key => openWeb3(gateway.ws(key)),
}

/** The library shows the code and the words of the gateway. */
const assertShowsError = async (
  t: Test,
  client: DappClient,
  code: number,
  key: string,
  method: string,
  params: readonly unknown[],
): Promise<void> => {
  const { error } = await call(gateway.http(key), method, params)
  t.equal(error?.code, code)
  const rejection: unknown = await client.request(method, params).then(
    () => undefined,
    error => error,
  )
  t.match(client.rpcErrorOf(rejection), { code, message: error?.message })
}

const closeAfter = (t: Test, client: DappClient): DappClient => {
  t.teardown(() => client.close())
  return client
}

const emitter = await deployEmitter(chain)
const mined = await emitter.emitLogs(3)

for (const [name, open] of Object.entries({ ...http, ...webSocket })) {
  t.test(`${name} reads what the node says`, async t => {
    const client = closeAfter(t, open(key))
    // All at once, for those that join calls.
    const [block, storage, logs, receipt] = await Promise.all([
      client.blockNumber(),
      client.storageAt(emitter.address, 0),
      client.logs(emitter.address),
      client.receipt(mined.transactionHash),
    ])
    t.equal(block, Number(await chain.request('eth_blockNumber')))
    t.equal(storage, await chain.request('eth_getStorageAt', emitter.address, '0x0', 'latest'))
    t.match(receipt, { transactionHash: mined.transactionHash, blockHash: mined.blockHash, logs: 3 })
    const wanted = await chain.request<ClientLog[]>('eth_getLogs', { address: emitter.address, fromBlock: 'earliest' })
    t.equal(wanted.length, 3)
    t.match(
      logs,
      wanted.map(({ transactionHash, logIndex, topics }) => ({ transactionHash, logIndex: Number(logIndex), topics })),
    )
  })
}

t.test('a mapping element is read at the hash of its key and the slot of the mapping', async t => {
  // Stores 42 at key 7 of a mapping in slot 3, as Solidity does, and has no code of its own.
  const creationCode = '0x60076000526003602052602a60406000205500'
  const { contractAddress } = await chain.sendTransaction({ data: creationCode })
  const position = keccak256(encodeAbiParameters([{ type: 'uint256' }, { type: 'uint256' }], [7n, 3n]))
  const { result } = await call(gateway.http(key), 'eth_getStorageAt', [contractAddress, position, 'latest'])
  t.equal(result, `0x${(42).toString(16).padStart(64, '0')}`)
})

// After all of the above, because these add to the chain.
for (const [index, [name, open]] of Object.entries({ ...http, ...webSocket }).entries()) {
  t.test(`${name} makes a round like a dApp`, async t => {
    const client = closeAfter(t, open(key))
    const stage = await deployEmitter(chain)
    const quiet = (await chain.request<string[]>('eth_accounts')).at(-1) ?? ''
    t.equal(await client.chainId(), 31337)
    t.equal(await client.balance(quiet), BigInt(await chain.request('eth_getBalance', quiet, 'latest')))

    const count = index + 2
    const { transactionHash, indexes } = await client.emitLogs(stage.address, count)
    t.same(
      indexes,
      Array.from({ length: count }, (_, each) => each),
    )
    t.match(await chain.request('eth_getTransactionReceipt', transactionHash), { status: '0x1', logs: { length: count } })
    t.equal(await client.count(stage.address), count, 'it reads what it has just written')
  })
}

for (const [name, open] of Object.entries({ ...http, ...webSocket })) {
  t.test(`${name} shows which parameter is wrong`, async t => {
    const client = closeAfter(t, open(key))
    await assertShowsError(t, client, -32602, key, 'eth_getStorageAt', [emitter.address, 'first', 'latest'])
  })

  t.test(`${name} shows that the credits are used up`, async t => {
    const client = closeAfter(t, open(poorKey, { staticNetwork: true }))
    await assertShowsError(t, client, -33000, poorKey, 'eth_blockNumber', [])
  })
}

for (const [name, open] of Object.entries(http)) {
  // A bad key is refused before the body is read, with one answer for the whole batch: this library looks for a list.
  if (name === 'viem over HTTP in batches') continue
  t.test(`${name} shows that the key is unknown`, async t => {
    const client = closeAfter(t, open(madeUpKey, { staticNetwork: true }))
    await assertShowsError(t, client, -32090, madeUpKey, 'eth_blockNumber', [])
  })
}

/** The subscriptions that the gateway has, of all kinds. */
const subscriptionCount = () => gateway.metric('tollgate_subscriptions')

for (const [name, open] of Object.entries(webSocket)) {
  t.test(`${name} watches blocks and events, through a reorg`, async t => {
    const client = closeAfter(t, open(key))
    const stage = await deployEmitter(chain)
    const blocks: number[] = []
    const events: { readonly index: number; readonly isRemoved: boolean }[] = []
    await waitUntil(async () => (await subscriptionCount()) === 0)
    await client.watch(stage.address, {
      onBlock: number => blocks.push(number),
      onEvent: (index, isRemoved) => events.push({ index, isRemoved }),
    })
    await waitUntil(async () => (await subscriptionCount()) === 2)
    await stage.emitLogs(2)
    const number = Number(await chain.request('eth_blockNumber'))
    await waitUntil(() => blocks.includes(number) && events.length === 2)
    await chain.request('anvil_reorg', 1, [])
    await chain.request('anvil_mine', '0x1')
    // ethers gives removed logs to listeners of its own kind of event.
    const removed = name.startsWith('ethers') ? [] : ['1 true', '0 true']
    const expected = ['0 false', '1 false', ...removed]
    await waitUntil(() => blocks.includes(number + 1) && events.length === expected.length)
    t.same(
      events.map(({ index, isRemoved }) => `${index} ${isRemoved}`),
      expected,
    )
  })
}
