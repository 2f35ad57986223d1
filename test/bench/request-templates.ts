import type { RequestTemplate } from './load/load-generator.ts'
import type { ExpectedResponse } from './load/response-check.ts'

/** Results of the node by method; other gateways request the last three when they start. The latest block is in recorded-traffic.jsonl. */
export const cannedResults: Readonly<Record<string, unknown>> = {
  eth_getStorageAt: `0x${'5'.padStart(64, '0')}`,
  eth_blockNumber: '0x14b1e5a',
  eth_chainId: '0x539',
  net_version: '1337',
  eth_syncing: false,
}

/** Maximum number of results of a query (contract 8). */
export const maxLogs = 10_000

/** The last block of each range of logs. */
export const lastLogBlock = 0x7fffffff

/** Words of data in each log: 10,000 logs are 6 MB or 21 MB. */
export const logDataWords = { small: 1, large: 24 } as const

/** The contract whose logs have this many words of data. */
export const logContract = (words: number): string => `0x${String(words).padStart(40, '0')}`

const rpcMessage = (method: string, params: string, id = '#id#'): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`

const storageParams = (position: string, block = 'latest'): string =>
  `["0x295a70b2de5e3953354a6a8344e616ed314d7251","${position}","${block}"]`

/** Answers about a block that may still change are cached for one poll interval; 2,000 of them would go to the node each 5 s. */
const finalBlock = '0x1'

const expectCannedResult = (method: string): ExpectedResponse => ({ status: 200, result: JSON.stringify(cannedResults[method]) })

export const storageAtRequest: RequestTemplate = {
  body: rpcMessage('eth_getStorageAt', storageParams('0x0')),
  ...expectCannedResult('eth_getStorageAt'),
}

export const blockNumberRequest: RequestTemplate = { body: rpcMessage('eth_blockNumber', '[]'), ...expectCannedResult('eth_blockNumber') }

/** 2,000 slots in turn: cached, but not a repetition of the same call. */
export const variedStorageAtRequest: RequestTemplate = {
  body: rpcMessage('eth_getStorageAt', storageParams('0x#some#', finalBlock)),
  ...expectCannedResult('eth_getStorageAt'),
}

/** Each call requests another slot: no result is cached. */
export const uncachedStorageAtRequest: RequestTemplate = {
  body: rpcMessage('eth_getStorageAt', storageParams('0x#hex#')),
  ...expectCannedResult('eth_getStorageAt'),
}

const batchOf100 = (slotOf: (i: number) => string): RequestTemplate => ({
  body: `[${Array.from({ length: 100 }, (_, i) => rpcMessage('eth_getStorageAt', storageParams(slotOf(i)), String(i + 1))).join()}]`,
  ...expectCannedResult('eth_getStorageAt'),
  batchSize: 100,
})

export const batchRequest: RequestTemplate = batchOf100(() => '0x0')

/** 100 different slots. */
export const variedBatchRequest: RequestTemplate = batchOf100(i => `0x${i.toString(16)}`)

/** Each call requests another range: no result is cached. */
export const logsRequest = (words: number): RequestTemplate => ({
  body: rpcMessage('eth_getLogs', `[{"address":"${logContract(words)}","fromBlock":"0x#hex#","toBlock":"0x${lastLogBlock.toString(16)}"}]`),
  status: 200,
  resultCount: maxLogs,
})

/** Each call requests another range, in which there are no logs. */
export const logsOfNoContractRequest: RequestTemplate = {
  body: rpcMessage('eth_getLogs', `[{"address":"${logContract(0)}","fromBlock":"0x#hex#","toBlock":"0x${lastLogBlock.toString(16)}"}]`),
  status: 200,
  resultCount: 0,
}

/** For a path with an invalid key. */
export const badKeyRequest: RequestTemplate = { body: storageAtRequest.body, status: 401, errorCode: -32090 }

/** The address is one byte too short. */
export const badParamsRequest: RequestTemplate = {
  body: rpcMessage('eth_getStorageAt', storageParams('0x0').replace('0x295a', '0x5a')),
  status: 200,
  errorCode: -32602,
}
