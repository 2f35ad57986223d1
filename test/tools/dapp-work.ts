import { Contract, Interface, JsonRpcProvider, Wallet } from 'ethers'
import { createPublicClient, createWalletClient, defineChain, http, parseAbi } from 'viem'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { Web3 } from 'web3'
import { multicallAddress, tokenAbi } from './token-contracts.ts'

/** What a dApp that shows and sends a token asks of a node, through one library. */
export type DappWork = (url: string, token: Hex) => Promise<void>

/** The private keys of anvil's second to fifth account, which everyone knows. */
const privateKeys = [
  '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
  '0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a',
  '0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6',
  '0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a',
] as const

const recipient = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

/** How often the page refreshes what it shows. */
const refreshCount = 8

/** How often a library asks whether a transaction is mined. */
const pollingIntervalMs = 50

const inViem =
  (batch: boolean, privateKey: Hex): DappWork =>
  async (url, token) => {
    const chain = defineChain({
      id: 1337,
      name: 'recorded',
      rpcUrls: { default: { http: [url] } },
      nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
      contracts: { multicall3: { address: multicallAddress } },
    })
    const account = privateKeyToAccount(privateKey)
    const client = createPublicClient({ chain, transport: http(url, { batch }), pollingInterval: pollingIntervalMs, cacheTime: 0 })
    const wallet = createWalletClient({ chain, transport: http(url, { batch }), account })
    const { address } = account
    const contract = { address: token, abi: parseAbi(tokenAbi) } as const
    const balanceOf = { ...contract, functionName: 'balanceOf', args: [address] } as const

    await Promise.all([client.getChainId(), client.getBlockNumber(), client.getBalance({ address }), client.getCode({ address: token })])
    await client.multicall({
      contracts: [balanceOf, { ...contract, functionName: 'decimals' }, { ...contract, functionName: 'symbol' }],
      allowFailure: false,
    })
    for (let i = 0; i < refreshCount; i += 1)
      await Promise.all([client.getBlockNumber(), client.getBalance({ address }), client.readContract(balanceOf)])
    await Promise.all([
      client.getGasPrice(),
      client.estimateFeesPerGas(),
      client.getFeeHistory({ blockCount: 4, rewardPercentiles: [25, 75] }),
      client.getTransactionCount({ address, blockTag: 'pending' }),
    ])
    const transfer = { ...contract, functionName: 'transfer', args: [recipient, 7n] } as const
    await client.estimateContractGas({ ...transfer, account })
    const hash = await wallet.writeContract(transfer)
    const { blockNumber } = await client.waitForTransactionReceipt({ hash })
    await Promise.all([
      client.getContractEvents({ ...contract, eventName: 'Transfer', fromBlock: blockNumber - 1n, toBlock: blockNumber }),
      client.getBlock({ blockNumber }),
      client.getTransaction({ hash }),
    ])
  }

const inEthers: DappWork = async (url, token) => {
  const provider = new JsonRpcProvider(url, undefined, { cacheTimeout: -1 })
  provider.pollingInterval = pollingIntervalMs
  const wallet = new Wallet(privateKeys[2], provider)
  const { address } = wallet
  const contract = new Contract(token, new Interface(tokenAbi), wallet)
  const read = (name: string, ...args: readonly unknown[]): Promise<unknown> => contract.getFunction(name).staticCall(...args)

  await Promise.all([provider.getNetwork(), provider.getBlockNumber(), provider.getBalance(address), provider.getCode(token)])
  await Promise.all([read('balanceOf', address), read('decimals'), read('symbol')])
  for (let i = 0; i < refreshCount; i += 1)
    await Promise.all([provider.getBlockNumber(), provider.getBalance(address), read('balanceOf', address)])
  await Promise.all([
    provider.getFeeData(),
    provider.send('eth_feeHistory', ['0x4', 'latest', [25, 75]]),
    provider.getTransactionCount(address, 'pending'),
  ])
  await contract.getFunction('transfer').estimateGas(recipient, 7n)
  const transaction = await contract.getFunction('transfer')(recipient, 7n)
  const { blockNumber } = await transaction.wait()
  await Promise.all([contract.queryFilter('Transfer', blockNumber - 1, blockNumber), provider.getBlock(blockNumber)])
  provider.destroy()
}

const inWeb3: DappWork = async (url, token) => {
  const web3 = new Web3(url)
  web3.setConfig({
    transactionPollingInterval: pollingIntervalMs,
    transactionReceiptPollingInterval: pollingIntervalMs,
    transactionConfirmationBlocks: 1, // more would be asked for while other libraries are recorded
  })
  const { address } = web3.eth.accounts.wallet.add(privateKeys[3])[0] ?? { address: '' }
  const { methods } = new web3.eth.Contract(
    new Interface(tokenAbi).fragments.map(each => JSON.parse(each.format('json'))),
    token,
  )
  const call = (name: string, ...args: readonly unknown[]) => methods[name]?.(...args)

  await Promise.all([web3.eth.getChainId(), web3.eth.getBlockNumber(), web3.eth.getBalance(address), web3.eth.getCode(token)])
  await Promise.all([call('balanceOf', address)?.call(), call('decimals')?.call(), call('symbol')?.call()])
  for (let i = 0; i < refreshCount; i += 1)
    await Promise.all([web3.eth.getBlockNumber(), web3.eth.getBalance(address), call('balanceOf', address)?.call()])
  await Promise.all([
    web3.eth.getGasPrice(),
    web3.eth.getFeeHistory(4, 'latest', [25, 75]),
    web3.eth.getTransactionCount(address, 'pending'),
  ])
  const transfer = call('transfer', recipient, 7)
  const gas = await transfer?.estimateGas({ from: address })
  const receipt = await transfer?.send({ from: address, gas: String(gas) })
  const blockNumber = Number(receipt?.blockNumber)
  await Promise.all([
    web3.eth.getPastLogs({ address: token, fromBlock: blockNumber - 1, toBlock: blockNumber }),
    web3.eth.getBlock(blockNumber),
    web3.eth.getTransaction(String(receipt?.transactionHash)),
  ])
}

/** By the name of the library. */
export const dappWorks: Readonly<Record<string, DappWork>> = {
  viem: inViem(false, privateKeys[0]),
  'viem in batches': inViem(true, privateKeys[1]),
  ethers: inEthers,
  web3: inWeb3,
}
