import type { Network } from './api.ts'

interface CodeSample {
  readonly language: string
  readonly code: string
}

/** The call as a developer would write it, with API_KEY in place of the key. */
export const codeSamples = ({ http }: Network, method: string, params: readonly unknown[]): readonly CodeSample[] => {
  const url = `${http}/v3/API_KEY`
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  return [
    { language: 'curl', code: `curl -s ${url} -H 'Content-Type: application/json' -d '${body.replaceAll("'", "'\\''")}'` },
    {
      language: 'viem',
      code: [
        "import { createPublicClient, http } from 'viem'",
        '',
        `const client = createPublicClient({ transport: http('${url}', { timeout: 12_000 }) })`,
        `console.log(await client.request({ method: '${method}', params: ${JSON.stringify(params)} }))`,
      ].join('\n'),
    },
    {
      language: 'ethers',
      code: [
        "import { JsonRpcProvider } from 'ethers'",
        '',
        `const provider = new JsonRpcProvider('${url}')`,
        `console.log(await provider.send('${method}', ${JSON.stringify(params)}))`,
      ].join('\n'),
    },
    {
      language: 'web3.py',
      code: [
        'from web3 import Web3',
        '',
        `w3 = Web3(Web3.HTTPProvider("${url}"))`,
        `print(w3.provider.make_request("${method}", ${toPython(params)}))`,
      ].join('\n'),
    },
  ]
}

const toPython = (value: unknown): string => {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(toPython).join(', ')}]`
  if (typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([name, member]) => `${JSON.stringify(name)}: ${toPython(member)}`)
    .join(', ')}}`
}
