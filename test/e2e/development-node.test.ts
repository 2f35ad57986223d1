import { readFileSync } from 'node:fs'
import { JsonRpcProvider, WebSocketProvider, verifyMessage, verifyTypedData } from 'ethers'
import t from '../support/tap.ts'
import { createTestClient, createWalletClient, http, parseEther, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { foundry } from 'viem/chains'
import { startAnvilChain } from '../support/anvil-chain.ts'
import { startGateway } from '../support/deployment.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// The shipped network, with calls over the WebSocket of the node.
const chain = await startAnvilChain()
t.teardown(() => chain.stop())
const { gateway, key, url } = await startGateway(t, {
  networks: { devnet: readFileSync(new URL('../../../configs/networks/devnet.yaml', import.meta.url), 'utf8') },
  env: { DEVNET_URL: chain.url.replace(/^http/, 'ws') },
})
const [account, other] = await chain.request<`0x${string}`[]>('eth_accounts')
if (account === undefined || other === undefined) throw new Error('the node has no accounts')

const typedData = { domain: { name: 'test' }, types: { Mail: [{ name: 'text', type: 'string' }] }, message: { text: 'hello' } }

t.test('a wallet of ethers sends and signs with the accounts of the node', async t => {
  const provider = new JsonRpcProvider(url, undefined, { cacheTimeout: -1, pollingInterval: 50 })
  t.teardown(() => provider.destroy())
  const signer = await provider.getSigner(account)
  const receipt = await (await signer.sendTransaction({ to: other, value: 1n })).wait()
  t.match(receipt, { status: 1, to: new RegExp(other, 'i') })
  t.equal(verifyMessage('hello', await signer.signMessage('hello')).toLowerCase(), account)
  const { domain, types, message } = typedData
  t.equal(verifyTypedData(domain, types, message, await signer.signTypedData(domain, types, message)).toLowerCase(), account)
})

t.test('a wallet of viem sends and signs with the accounts of the node', async t => {
  const wallet = createWalletClient({ account, chain: foundry, transport: http(url) }).extend(publicActions)
  t.same(
    (await wallet.getAddresses())
      .slice(0, 2)
      .map(String)
      .map(text => text.toLowerCase()),
    [account, other],
  )
  const hash = await wallet.sendTransaction({ to: other, value: 1n })
  t.match(await wallet.waitForTransactionReceipt({ hash, pollingInterval: 50 }), { status: 'success' })
  t.equal((await wallet.signMessage({ message: 'hello' })).length, 132)
  t.equal((await wallet.signTypedData({ ...typedData, primaryType: 'Mail' })).length, 132)
})

t.test('a wallet of viem gets the receipts of what it sends, and every caller the height of their blocks', async t => {
  const local = privateKeyToAccount('0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6') // one of the node's
  const wallet = createWalletClient({ account: local, chain: foundry, transport: http(url) }).extend(publicActions)
  const sent = await wallet.sendTransactionSync({ to: other, value: 1n })
  t.match(sent, { status: 'success', to: other })
  t.ok((await wallet.getBlockNumber({ cacheTime: 0 })) >= sent.blockNumber)
  const serializedTransaction = await wallet.signTransaction(await wallet.prepareTransactionRequest({ to: other, value: 2n }))
  const receipt = await wallet.sendRawTransactionSync({ serializedTransaction })
  t.match(receipt, { status: 'success', to: other })
  t.equal(await wallet.getTransactionCount({ address: local.address }), 2)
  t.ok((await wallet.getBlockNumber({ cacheTime: 0 })) >= receipt.blockNumber)
  const signer = createWalletClient({ account, chain: foundry, transport: http(url) })
  t.match(await signer.sendTransactionSync({ to: other, value: 1n }), { status: 'success' }, 'for an account of the node too')
})

for (const mode of ['anvil', 'hardhat'] as const) {
  t.test(`the tools of ${mode} control the node, and callers see at once what they changed`, async t => {
    const tools = createTestClient({ mode, chain: foundry, transport: http(url) }).extend(publicActions)
    const address = '0x00000000000000000000000000000000000000aa'
    const balance = () => tools.getBalance({ address })
    const before = await balance()
    const id = await tools.snapshot()
    await tools.setBalance({ address, value: parseEther('7') })
    t.equal(await balance(), parseEther('7'))
    const block = await tools.getBlockNumber({ cacheTime: 0 })
    await tools.mine({ blocks: 3 })
    t.equal(await tools.getBlockNumber({ cacheTime: 0 }), block + 3n)
    await tools.revert({ id })
    t.equal(await tools.getBlockNumber({ cacheTime: 0 }), block, 'the height goes back with the node')
    t.equal(await balance(), before)
    t.match((await call(url, 'web3_clientVersion')).result, /^anvil/)
  })
}

t.test('a subscription of ethers to pending transactions brings the hash of each', async t => {
  const provider = new WebSocketProvider(gateway.ws(key))
  t.teardown(() => provider.destroy())
  const seen: string[] = []
  await provider.on('pending', (hash: string) => void seen.push(hash))
  await provider.getBlockNumber() // the subscription is answered before it
  const { hash } = await (await provider.getSigner(account)).sendTransaction({ to: other, value: 1n })
  await waitUntil(() => seen.includes(hash))
  t.equal(await call(url, 'eth_syncing').then(({ result }) => result), false)
  t.match((await call(url, 'eth_newPendingTransactionFilter')).result, /^0x/)
})
