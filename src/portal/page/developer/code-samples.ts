import { toPython } from './json-text.ts'

/** A call as a developer writes it. Each of `params` is a JSON text. */
interface SampleCall {
  /** Of the network, with the key in it. */
  readonly url: string
  readonly chainId: number
  readonly method: string
  readonly params: readonly string[]
}

export interface CodeSample {
  readonly language: string
  readonly code: string
}

export const callBody = (method: string, params: readonly string[]): string =>
  `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":[${params.join(',')}]}`

/** A text in a POSIX shell. */
const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** What viem and wagmi call the chains. */
const viemChains: Readonly<Record<number, string>> = {
  1: 'mainnet',
  10: 'optimism',
  56: 'bsc',
  100: 'gnosis',
  137: 'polygon',
  324: 'zksync',
  8453: 'base',
  31337: 'foundry',
  42161: 'arbitrum',
  43114: 'avalanche',
  59144: 'linea',
  84532: 'baseSepolia',
  11155111: 'sepolia',
}

/** The name of the chain, and the lines that have it. */
const viemChainOf = (chainId: number): readonly [name: string, line: string] => {
  const name = viemChains[chainId]
  if (name !== undefined) return [name, `import { ${name} } from 'viem/chains'`]
  const lines = [
    '',
    'const chain = {',
    `  id: ${chainId},`,
    `  name: 'chain ${chainId}',`,
    "  nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },",
    '  rpcUrls: { default: { http: [] } },',
    '}',
  ]
  return ['chain', lines.join('\n')]
}

/** `chain,` or `chain: base,`. */
const chainMemberOf = (name: string): string => (name === 'chain' ? '  chain,' : `  chain: ${name},`)

/** The call in several languages, with no line that is longer than it must be. */
export const codeSamples = ({ url, chainId, method, params }: SampleCall): readonly CodeSample[] => {
  const list = `[${params.join(', ')}]`
  const [chain, chainLine] = viemChainOf(chainId)
  return [
    {
      language: 'curl',
      code: [`curl -s ${url} \\`, "  -H 'Content-Type: application/json' \\", `  -d ${quote(callBody(method, params))}`].join('\n'),
    },
    {
      language: 'viem',
      code: [
        "import { createPublicClient, http } from 'viem'",
        chainLine,
        '',
        'const client = createPublicClient({',
        chainMemberOf(chain),
        '  transport: http(',
        `    '${url}',`,
        '    { timeout: 12_000 },',
        '  ),',
        '})',
        'console.log(',
        `  await client.request({ method: '${method}', params: ${list} }),`,
        ')',
      ].join('\n'),
    },
    {
      language: 'ethers',
      code: [
        "import { JsonRpcProvider } from 'ethers'",
        '',
        'const provider = new JsonRpcProvider(',
        `  '${url}',`,
        ')',
        `console.log(await provider.send('${method}', ${list}))`,
      ].join('\n'),
    },
    {
      language: 'web3.py',
      code: [
        'from web3 import Web3',
        '',
        'w3 = Web3(Web3.HTTPProvider(',
        `    "${url}",`,
        '))',
        `print(w3.provider.make_request("${method}", ${toPython(list)}))`,
      ].join('\n'),
    },
    {
      language: 'wagmi',
      code: [
        "import { createConfig, http } from 'wagmi'",
        chainLine,
        '',
        'const config = createConfig({',
        `  chains: [${chain}],`,
        '  transports: {',
        `    [${chain}.id]: http('${url}'),`,
        '  },',
        '})',
        'console.log(',
        `  await config.getClient().request({ method: '${method}', params: ${list} }),`,
        ')',
      ].join('\n'),
    },
    {
      language: 'Foundry',
      code: [`cast rpc --rpc-url ${url} \\`, `  ${method} --raw ${quote(list)}`].join('\n'),
    },
  ]
}

/** A subscription in several languages; `url` is that of WebSockets. */
export const subscriptionSamples = ({ url, chainId, method, params }: SampleCall): readonly CodeSample[] => {
  const [chain, chainLine] = viemChainOf(chainId)
  const body = callBody(method, params)
  return [
    { language: 'websocat', code: [`echo ${quote(body)} |`, `  websocat -n ${url}`].join('\n') },
    {
      language: 'viem',
      code: [
        "import { createPublicClient, webSocket } from 'viem'",
        chainLine,
        '',
        'const client = createPublicClient({',
        chainMemberOf(chain),
        `  transport: webSocket('${url}'),`,
        '})',
        'await client.transport.subscribe({',
        `  params: [${params.join(', ')}],`,
        '  onData: ({ result }) => console.log(result),',
        '  onError: console.error,',
        '})',
      ].join('\n'),
    },
    {
      language: 'JavaScript',
      code: [
        'const socket = new WebSocket(',
        `  '${url}',`,
        ')',
        `const call = { jsonrpc: '2.0', id: 1, method: '${method}', params: [${params.join(', ')}] }`,
        'socket.onopen = () => socket.send(JSON.stringify(call))',
        'socket.onmessage = ({ data }) => console.log(data)',
      ].join('\n'),
    },
    {
      language: 'web3.py',
      code: [
        'import asyncio',
        'from web3 import AsyncWeb3, WebSocketProvider',
        '',
        'async def main():',
        '    async with AsyncWeb3(WebSocketProvider(',
        `        "${url}",`,
        '    )) as w3:',
        `        await w3.eth.subscribe(${toPython(params.join(', '))})`,
        '        async for message in w3.socket.process_subscriptions():',
        // In a file or a pipe, Python would keep the first events for minutes.
        '            print(message["result"], flush=True)',
        '',
        'asyncio.run(main())',
      ].join('\n'),
    },
  ]
}
