import type { Network } from './api.ts'
import { toPython } from './json-text.ts'
import { callBody } from './try-call.ts'

interface CodeSample {
  readonly language: string
  readonly code: string
}

/** The call as a developer would write it, with API_KEY in place of the key. Each of `params` is a JSON text. */
export const codeSamples = ({ http }: Network, method: string, params: readonly string[]): readonly CodeSample[] => {
  const url = `${http}/v3/API_KEY`
  const body = callBody(method, params)
  const list = `[${params.join(', ')}]`
  return [
    { language: 'curl', code: `curl -s ${url} -H 'Content-Type: application/json' -d '${body.replaceAll("'", "'\\''")}'` },
    {
      language: 'viem',
      code: [
        "import { createPublicClient, http } from 'viem'",
        '',
        `const client = createPublicClient({ transport: http('${url}', { timeout: 12_000 }) })`,
        `console.log(await client.request({ method: '${method}', params: ${list} }))`,
      ].join('\n'),
    },
    {
      language: 'ethers',
      code: [
        "import { JsonRpcProvider } from 'ethers'",
        '',
        `const provider = new JsonRpcProvider('${url}')`,
        `console.log(await provider.send('${method}', ${list}))`,
      ].join('\n'),
    },
    {
      language: 'web3.py',
      code: [
        'from web3 import Web3',
        '',
        `w3 = Web3(Web3.HTTPProvider("${url}"))`,
        `print(w3.provider.make_request("${method}", ${toPython(list)}))`,
      ].join('\n'),
    },
  ]
}
