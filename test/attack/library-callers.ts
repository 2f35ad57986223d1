import { JsonRpcProvider } from 'ethers'
import { createClient, http } from 'viem'

interface LibraryCall {
  readonly method: string
  readonly params: readonly unknown[]
}

/** That of the fake node. */
const chainId = 31_337

/** Over HTTP, with the attempts and time limits that each library has by itself. Rejects with the library's error. */
const requestsByLibrary = {
  viem(url: string) {
    const client = createClient({ transport: http(url) })
    // The types of the library allow only the methods that it knows.
    return (call: LibraryCall): Promise<unknown> => client.request(call as never)
  },
  ethers(url: string) {
    const provider = new JsonRpcProvider(url, chainId, { staticNetwork: true })
    return ({ method, params }: LibraryCall): Promise<unknown> => provider.send(method, [...params])
  },
} as const

export type Library = keyof typeof requestsByLibrary

/** Sends what a request says by a library, and resolves with a response that has its result. */
export const openLibraryCaller = (library: Library, url: string): ((body: string) => Promise<string>) => {
  const request = requestsByLibrary[library](url)
  return async body => JSON.stringify({ result: await request(JSON.parse(body) as LibraryCall) }) // a request with params
}
