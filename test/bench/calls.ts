import type { Expected } from './load/check.ts'

/** A kind of call: its message, in which `#id#`, `#hex#` and `#some#` are filled in anew each time, and its right answer. */
export interface Calls extends Expected {
  readonly message: string
}

/** What the node answers by method; the last four are what other gateways ask a node when they start. */
export const constants: Readonly<Record<string, unknown>> = {
  eth_getStorageAt: `0x${'5'.padStart(64, '0')}`,
  eth_blockNumber: '0x14b1e5a',
  eth_chainId: '0x539',
  net_version: '1337',
  eth_syncing: false,
  eth_getBlockByNumber: { number: '0x14b1e5a', hash: `0x${'b'.repeat(64)}`, timestamp: '0x67000000', transactions: [] },
}

/** Most results of one query (contract 8). */
export const mostLogs = 10_000

/** Words of data in each log: they make 10,000 logs 6 MB or 21 MB long. */
export const words = { small: 1, large: 24 } as const

/** The contract whose logs have so many words of data. */
export const emitter = (words: number): string => `0x${String(words).padStart(40, '0')}`

const ask = (method: string, params: string, id = '#id#'): string => `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`

const slot = (position: string): string => `["0x295a70b2de5e3953354a6a8344e616ed314d7251","${position}","latest"]`

const answered = (method: string): Expected => ({ status: 200, result: JSON.stringify(constants[method]) })

export const storageAt: Calls = { message: ask('eth_getStorageAt', slot('0x0')), ...answered('eth_getStorageAt') }

export const blockNumber: Calls = { message: ask('eth_blockNumber', '[]'), ...answered('eth_blockNumber') }

/** 2,000 slots in turn: in a cache, but not the same call again and again. */
export const variedStorageAt: Calls = {
  message: ask('eth_getStorageAt', slot('0x#some#')),
  ...answered('eth_getStorageAt'),
}

/** Each call asks for another slot, so that none is in a cache. */
export const freshStorageAt: Calls = {
  message: ask('eth_getStorageAt', slot('0x#hex#')),
  ...answered('eth_getStorageAt'),
}

export const batch: Calls = {
  message: `[${Array.from({ length: 100 }, (_, i) => ask('eth_getStorageAt', slot('0x0'), String(i + 1))).join()}]`,
  ...answered('eth_getStorageAt'),
  batch: 100,
}

/** Each call asks for another range, so that none is in a cache. */
export const logs = (words: number): Calls => ({
  message: ask('eth_getLogs', `[{"address":"${emitter(words)}","fromBlock":"0x#hex#","toBlock":"0x7fffffff"}]`),
  status: 200,
  elements: mostLogs,
})

/** For a path whose key is not valid. */
export const badKey: Calls = { message: storageAt.message, status: 401, code: -32090 }

/** The address is a byte short. */
export const badParams: Calls = {
  message: ask('eth_getStorageAt', slot('0x0').replace('0x295a', '0x5a')),
  status: 200,
  code: -32602,
}
